#include "runtime/train/Metrics.h"

#include "base/Blocking.h"
#include "base/Failpoint.h"
#include "base/File.h"
#include "runtime/io/File.h"
#include "runtime/io/OutputFile.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace zc::train {

namespace {
struct Number {
  explicit Number(double value) {
    if (std::isfinite(value))
      std::snprintf(text, sizeof text, "%.17g", value);
  }
  char text[32] = "null";
};
} // namespace

/// As further members of an object; gives their length.
static int writeEval(const EvalRecord &eval, char *to, size_t room) {
  int length = std::snprintf(to, room, ",\"val_loss\":%s,\"val_seconds\":%s,\"val_samples\":%lld,\"val_left_out\":%lld",
                             Number(eval.loss).text, Number(eval.seconds).text, static_cast<long long>(eval.samples),
                             static_cast<long long>(eval.leftOut));
  if (eval.isLikelihood)
    length +=
        std::snprintf(to + length, room - size_t(length), ",\"val_perplexity\":%s", Number(std::exp(eval.loss)).text);
  return length;
}

std::string_view toJson(const StepRecord &record, std::array<char, 512> &buffer) {
  double rate = record.seconds > 0 ? double(record.samples) / record.seconds : 0;
  int length = std::snprintf(buffer.data(), buffer.size(),
                             "{\"step\":%lld,\"loss\":%s,\"grad_norm\":%s,\"lr\":%s,\"step_seconds\":%s,"
                             "\"samples_per_second\":%s,\"skipped\":%s",
                             static_cast<long long>(record.step), Number(record.loss).text,
                             Number(record.gradNorm.value_or(NAN)).text, Number(record.lr).text,
                             Number(record.seconds).text, Number(rate).text, record.skipped ? "true" : "false");
  if (record.lossScale)
    length += std::snprintf(buffer.data() + length, buffer.size() - size_t(length), ",\"loss_scale\":%s",
                            Number(*record.lossScale).text);
  if (record.eval)
    length += writeEval(*record.eval, buffer.data() + length, buffer.size() - size_t(length));
  buffer[size_t(length++)] = '}';
  return {buffer.data(), size_t(length)};
}

/// The leading lines with rising steps up to `lastStep`; what a killed run wrote after its last checkpoint is dropped.
/// They begin after the step of the checkpoint, where that was another folder's, and steps lack whose lines a full disk
/// did not take.
static std::string linesUpTo(const std::string &text, int64_t lastStep) {
  constexpr std::string_view lead = "{\"step\":";
  int64_t before = 0;
  size_t at = 0;
  for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    int64_t step = 0;
    if (text.compare(at, lead.size(), lead) != 0)
      break;
    auto [rest, failure] = std::from_chars(&text[at + lead.size()], &text[end], step);
    if (failure != std::errc() || *rest != ',' || step <= before || step > lastStep)
      break;
    before = step;
  }
  return text.substr(0, at);
}

Status MetricsFile::open(const std::string &path, int64_t lastStep, bool completes, const std::string &aside) {
  std::string kept;
  std::error_code failure;
  bool isNew = !std::filesystem::exists(path, failure) && !failure;
  if (lastStep > 0 && !isNew) { // what cannot be read now must not be replaced
    auto old = readFile(path, uint64_t(1) << 32);
    if (!old) {
      Error error = old.error();
      error.code = Code::io;
      return error;
    }
    kept = linesUpTo(*old, lastStep);
    if (!aside.empty() && kept != *old)
      ZC_RETURN_IF_ERROR(io::replaceFile(aside, *old));
  }
  if (size_t last = kept.rfind("{\"step\":" + std::to_string(lastStep) + ","); completes && last != std::string::npos) {
    begun = kept.substr(last, kept.size() - last - 2);                  // without "}\n"
    begun.resize(std::min(begun.size(), begun.find(",\"val_loss\":"))); // of an evaluation on other data
    kept = kept.substr(0, last) + begun + "}\n"; // which stays what it is where the run ends before the evaluation
    begunAt = int64_t(last);
  }
  ZC_RETURN_IF_ERROR(io::replaceFile(path, kept));
  this->path = path;
  return openToAppend();
}

Status MetricsFile::openToAppend() {
  fd = Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd.isOpen())
    return io::errnoError(Code::io, 910, "cannot open", path, errno);
  return Status::success();
}

bool MetricsFile::isGone() const {
  struct stat info = {};
  return fd.isOpen() && ::fstat(fd.get(), &info) == 0 && info.st_nlink == 0;
}

Status MetricsFile::putBack() {
  auto text = readFile("/proc/self/fd/" + std::to_string(fd.get()), uint64_t(1) << 32);
  if (!text)
    return text.error();
  ZC_RETURN_IF_ERROR(io::replaceFile(path, *text));
  return openToAppend();
}

void MetricsFile::append(const StepRecord &record) {
  if (errnum != 0 || !fd.isOpen())
    return;
  std::array<char, 512> buffer;
  if (!begun.empty()) {
    int length = record.eval ? writeEval(*record.eval, buffer.data(), buffer.size()) : 0;
    if (::ftruncate(fd.get(), begunAt) != 0)
      errnum = errno;
    else
      write(begun + std::string(buffer.data(), size_t(length)) + "}\n");
    begun.clear();
    return;
  }
  std::string_view line = toJson(record, buffer);
  buffer[line.size()] = '\n';
  write({buffer.data(), line.size() + 1});
}

void MetricsFile::write(std::string_view line) {
  const char *cursor = line.data();
  size_t left = line.size();
  Blocking here("writing", path);
  if (auto fault = failpoint("metrics.write"); fault && fault->kind == FaultAction::Kind::error) {
    errnum = fault->errnum;
    return;
  }
  while (left > 0) {
    ssize_t put = ::write(fd.get(), cursor, left);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0) {
      errnum = put == 0 ? ENOSPC : errno;
      return;
    }
    cursor += put;
    left -= size_t(put);
  }
}

} // namespace zc::train
