#include "runtime/plan/PlanFile.h"

#include "base/File.h"
#include "runtime/io/OutputFile.h"
#include "runtime/plan/VerifyParts.h"

#include <array>
#include <climits>
#include <cstring>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <limits>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zc {

namespace {

constexpr std::string_view kMagic("\x89ZCPLAN\n", 8);
constexpr uint32_t kTag = 0x01020304;
constexpr uint32_t kSwappedTag = 0x04030201;
constexpr uint32_t kPlanSection = 1;
constexpr uint32_t kMaxSections = 16;
constexpr size_t kFixedBytes = 32;
constexpr size_t kEntryBytes = 40;
constexpr size_t kHashBytes = 16;
constexpr uint64_t kMaxMessage = INT_MAX;
constexpr uint64_t kMaxFile = kMaxMessage + kFixedBytes + kMaxSections * kEntryBytes + kHashBytes;

// The format is little-endian and so is every machine this builds for; a big-endian one would see the tag swapped.
template <typename T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof value);
}
template <typename T> T get(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string hashOf(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char *>(canonical.digest), kHashBytes);
}

/// `bytes`: what ByteSizeLong has just said, which leaves the sizes of all parts behind.
std::string serialize(const planpb::Plan &plan, size_t bytes) {
  std::string message(bytes, '\0');
  google::protobuf::io::ArrayOutputStream stream(message.data(), static_cast<int>(bytes));
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  plan.SerializeWithCachedSizes(&coded);
  return message;
}

Error corrupt(int number, const std::string &name, const std::string &what) {
  return makeError(Code::corrupt, number, "plan is damaged: " + what, name, "compile it again");
}

Error mismatch(int number, const std::string &name, std::string what,
               std::string help = "compile the model again with this version") {
  return makeError(Code::mismatch, number, std::move(what), name, std::move(help));
}

/// How a plan in whatever format was compiled, if it says so.
std::string commandIn(std::string_view bytes) {
  if (bytes.size() < kFixedBytes + kEntryBytes)
    return "";
  uint64_t offset = get<uint64_t>(bytes, kFixedBytes + 8), size = get<uint64_t>(bytes, kFixedBytes + 16);
  planpb::Plan plan;
  if (offset > bytes.size() || size > std::min<uint64_t>(bytes.size() - offset, std::numeric_limits<int>::max()) ||
      !plan.ParseFromArray(bytes.data() + offset, static_cast<int>(size)))
    return "";
  return plan.command();
}

/// Checks what comes before the sections and gives the bytes of the plan section.
Result<std::string_view> openContainer(std::string_view bytes, const std::string &name) {
  size_t known = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, known) != kMagic.substr(0, known))
    return mismatch(400, name, "not a plan file", "zero-compile MODEL.onnx -o PLAN makes one");
  if (bytes.size() < kFixedBytes)
    return corrupt(401, name, "truncated after " + std::to_string(bytes.size()) + " bytes");
  if (get<uint32_t>(bytes, 12) == kSwappedTag)
    return mismatch(402, name, "plan was written on a machine of the other endianness");
  if (uint32_t version = get<uint32_t>(bytes, 8); version != kPlanFormat)
    return verify::otherFormat(version, name, commandIn(bytes));
  uint32_t count = get<uint32_t>(bytes, 24);
  if (count == 0 || count > kMaxSections)
    return corrupt(404, name, std::to_string(count) + " sections");
  size_t tableEnd = kFixedBytes + count * kEntryBytes;
  if (bytes.size() < tableEnd + kHashBytes)
    return corrupt(401, name, "truncated after " + std::to_string(bytes.size()) + " bytes");
  if (hashOf(bytes.substr(0, tableEnd)) != bytes.substr(tableEnd, kHashBytes))
    return corrupt(405, name, "checksum of the header differs");
  // From here on the header is what some writer wrote; it may still be a bad writer.
  if (get<uint32_t>(bytes, 12) != kTag || get<uint32_t>(bytes, 28) != 0)
    return corrupt(406, name, "reserved fields are set");
  if (uint64_t total = get<uint64_t>(bytes, 16); total != bytes.size())
    return corrupt(407, name, std::to_string(bytes.size()) + " bytes, the header says " + std::to_string(total));
  std::string_view plan;
  uint64_t at = tableEnd + kHashBytes;
  for (uint32_t i = 0; i < count; ++i) {
    size_t entry = kFixedBytes + i * kEntryBytes;
    uint64_t offset = get<uint64_t>(bytes, entry + 8), size = get<uint64_t>(bytes, entry + 16);
    if (offset != at || size > bytes.size() - at)
      return corrupt(408, name, "section " + std::to_string(i) + " lies outside its place");
    if (get<uint32_t>(bytes, entry) != kPlanSection || get<uint32_t>(bytes, entry + 4) != 0 || i > 0)
      return corrupt(409, name, "section " + std::to_string(i) + " is of an unknown kind");
    plan = bytes.substr(offset, size);
    if (hashOf(plan) != bytes.substr(entry + 24, kHashBytes))
      return corrupt(410, name, "checksum of section " + std::to_string(i) + " differs");
    at += size;
  }
  if (at != bytes.size())
    return corrupt(411, name, "bytes after the last section");
  return plan;
}

} // namespace

Error verify::otherFormat(uint32_t version, const std::string &name, const std::string &command) {
  return mismatch(403, name,
                  "plan has format version " + std::to_string(version) + ", this program reads version " +
                      std::to_string(kPlanFormat),
                  "compile the model again with this version" +
                      (command.empty() ? "" : ": " + escapeName(command) + " -o PLAN"));
}

Result<planpb::Plan> readPlan(std::string_view bytes, const std::string &name) {
  Result<std::string_view> section = openContainer(bytes, name);
  if (!section)
    return section.error();
  planpb::Plan plan;
  google::protobuf::LogSilencer silence; // libraries do not print
  if (section->size() > kMaxMessage || !plan.ParseFromArray(section->data(), static_cast<int>(section->size())))
    return corrupt(412, name, "its message does not parse");
  if (plan.format() != kPlanFormat)
    return verify::otherFormat(plan.format(), name, plan.command());
  return plan;
}

Result<planpb::Plan> readPlan(const std::string &path) {
  Result<std::string> bytes = readFile(path, kMaxFile);
  if (!bytes)
    return bytes.error();
  return readPlan(*bytes, path);
}

Result<std::string> packPlan(const planpb::Plan &plan) {
  const size_t size = plan.ByteSizeLong();
  if (size > kMaxMessage)
    return makeError(Code::unsupported, 413,
                     "plan message has " + std::to_string(size) + " bytes, at most " + std::to_string(kMaxMessage) +
                         " are possible");
  std::string message = serialize(plan, size);
  std::string out(kMagic);
  uint64_t start = kFixedBytes + kEntryBytes + kHashBytes;
  out.reserve(start + size);
  put<uint32_t>(out, kPlanFormat);
  put<uint32_t>(out, kTag);
  put<uint64_t>(out, start + message.size());
  put<uint32_t>(out, 1);
  put<uint32_t>(out, 0);
  put<uint32_t>(out, kPlanSection);
  put<uint32_t>(out, 0);
  put<uint64_t>(out, start);
  put<uint64_t>(out, message.size());
  out += hashOf(message);
  out += hashOf(out);
  out += message;
  return out;
}

Status writePlan(const std::string &path, const planpb::Plan &plan) {
  Result<std::string> bytes = packPlan(plan);
  if (!bytes)
    return bytes.error();
  return io::writeFileAtomically(path, *bytes);
}

uint64_t planHash(planpb::Plan plan) {
  plan.clear_command();
  std::string message = serialize(plan, plan.ByteSizeLong());
  return XXH3_64bits(message.data(), message.size());
}

} // namespace zc
