//===- Suggest.cpp - "did you mean" -----------------------------------------------------===//

#include "base/Suggest.h"

#include "base/Names.h"
#include "base/Status.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string_view>

namespace {

/// Names that others have for what is a flag here.
struct Elsewhere {
  const char *program, *flag;
  std::vector<const char *> names;
};
const Elsewhere kElsewhere[] = {
    {"zero-run", "--steps N", {"--max-steps", "--num-steps", "--max-iters", "--train-iters", "--iterations"}},
    {"zero-run", "--epochs N", {"--num-train-epochs", "--num-epochs", "--max-epochs"}},
    {"zero-run", "--save-every N", {"--save-steps", "--save-interval", "--checkpoint-every", "--save-freq"}},
    {"zero-run", "--resume DIR", {"--resume-from", "--resume-from-checkpoint", "--load", "--load-checkpoint"}},
    {"zero-run", "--out DIR", {"--output-dir", "--save-dir", "--save", "--output"}},
    {"zero-run", "--data PATH", {"--dataset", "--train-data", "--data-path", "--train-file"}},
    {"zero-run", "--hosts FILE", {"--hostfile"}},
    {"zero-run", "--warmup N", {"--warmup-steps", "--lr-warmup-iters"}},
    {"zero-run", "-n N", {"--world-size", "--num-gpus", "--num-processes", "--num-ranks", "--nproc", "--np"}},
    {"zero-compile", "--world-size N", {"--num-gpus", "--num-processes", "--num-ranks", "--nproc-per-node", "--dp"}},
    {"zero-compile",
     "--dim batch=N",
     {"--batch-size", "--micro-batch-size", "--micro-batch", "--per-device-train-batch-size",
      "--train-micro-batch-size-per-gpu"}},
    {"zero-compile", "--precision bf16", {"--bf16"}},
    {"zero-compile", "--precision fp16", {"--fp16"}},
    {"zero-compile", "--zero-stage N", {"--stage", "--zero", "--zero-optimization-stage"}},
    {"zero-compile",
     "--grad-accumulation N",
     {"--gradient-accumulation-steps", "--grad-accum", "--accumulation-steps"}},
    {"zero-compile",
     "--tensor-parallel N",
     {"--tp", "--tp-size", "--tensor-parallel-size", "--tensor-model-parallel-size"}},
    {"zero-compile", "--offload-optimizer TIER", {"--cpu-offload", "--offload"}},
    {"zero-compile",
     "--checkpoint-activations HOW",
     {"--gradient-checkpointing", "--activation-checkpointing", "--recompute-activations"}},
    {"zero-compile", "--clip-grad-norm X", {"--max-grad-norm", "--clip-grad", "--gradient-clipping"}},
    {"zero-compile", "--lr X", {"--learning-rate"}},
    {"zero-run", "--lr X", {"--learning-rate"}},
};

} // namespace

/// Levenshtein distance in which two neighbours that are swapped count once (optimal string alignment).
static size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> before, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::move(above);
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string zc::nearest(const std::string &name, const std::vector<std::string> &candidates) {
  std::string best;
  size_t least = 1 + name.size() / 3;
  for (const std::string &candidate : candidates)
    if (size_t d = distance(name, candidate); d < least) {
      least = d;
      best = candidate;
    }
  return best;
}

std::string zc::notOneOf(const std::string &word, const std::vector<std::string> &words) {
  std::string text = "\"" + escapeName(word.substr(0, 200)) + "\" is not one of ";
  for (const std::string &each : words)
    text += (&each == &words.front() ? "" : ", ") + each;
  const std::string near = nearest(word, words);
  return near.empty() ? text : text + "; did you mean \"" + near + "\"?";
}

std::string zc::inOurWords(std::string said) {
  static constexpr std::string_view kTooOften = ": At Most 1 required but received ", kMissing = ": 1 required ";
  if (const size_t at = said.find(kTooOften); at != std::string::npos)
    return "\"" + said.substr(0, at) + "\" is given " + said.substr(at + kTooOften.size()) + " times";
  if (const size_t at = said.find(kMissing); at != std::string::npos)
    return "\"" + said.substr(0, at) + "\" lacks its value";
  if (!said.empty())
    said[0] = char(std::tolower(static_cast<unsigned char>(said[0])));
  return said;
}

std::optional<zc::Untaken> zc::firstUntaken(const std::vector<std::string> &words) {
  const bool areWords = !words.empty() && words[0] == "--";
  if (words.size() == size_t(areWords))
    return std::nullopt;
  const std::string &word = words[areWords];
  std::string name = word.substr(0, word.find('=')).substr(0, 100);
  const bool isFlag = !areWords && !name.empty() && name[0] == '-';
  return Untaken{std::move(name), isFlag};
}

std::string zc::adviceOnFlag(const std::string &flag, const std::vector<std::string> &known,
                             const std::string &program) {
  std::string spelled = flag;
  std::replace(spelled.begin(), spelled.end(), '_', '-');
  const Elsewhere *other = nullptr; // of another program
  for (const Elsewhere &entry : kElsewhere)
    if (std::find(entry.names.begin(), entry.names.end(), spelled) != entry.names.end()) {
      if (entry.program == program)
        return "it is called \"" + std::string(entry.flag) + "\" here";
      other = &entry;
    }
  if (other)
    return std::string("it is ") + other->program + "'s to say: \"" + other->flag + "\"";
  std::string near = nearest(flag, known);
  if (!near.empty())
    return "did you mean \"" + near + "\"?";
  return program + " --help-all lists all flags" +
         (program == "zero-run" ? "; what a plan fixes, as its stage and precision, zero-compile is told" : "");
}
