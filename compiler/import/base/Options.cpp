//===- Options.cpp - what may be asked of an import -------------------------===//
#include "compiler/import/base/Options.h"
#include "compiler/import/base/Errors.h"
#include "dialects/graph/ConstantLimit.h"

#include <charconv>
#include <limits>

using namespace zc;
using namespace zc::importer;

Status zc::importer::setLimit(ImportLimits &limits, const std::string &text) {
  struct Named {
    const char *name;
    int64_t ImportLimits::*limit;
    int64_t most = std::numeric_limits<int64_t>::max();
  };
  constexpr Named table[] = {{"nodes", &ImportLimits::nodes},
                             {"node-attributes", &ImportLimits::nodeAttributes},
                             {"depth", &ImportLimits::depth},
                             {"name-bytes", &ImportLimits::nameBytes},
                             {"rank", &ImportLimits::rank},
                             {"hard-links", &ImportLimits::hardLinks},
                             {"folded-elements", &ImportLimits::foldedElements, graph::kMostConstantElements},
                             {"folding-work", &ImportLimits::foldingWork}};
  size_t equals = text.find('=');
  std::string name = text.substr(0, equals), names = "model-bytes";
  int64_t value = -1;
  if (equals != std::string::npos) {
    auto [end, problem] = std::from_chars(text.data() + equals + 1, text.data() + text.size(), value);
    value = problem == std::errc() && end == text.data() + text.size() ? value : -1;
  }
  for (const Named &entry : table) {
    names += std::string(", ") + entry.name;
    if (entry.name == name && value >= 0) {
      if (value > entry.most)
        return makeError(Code::usage, badLimit,
                         "'" + text + "' is more than " + std::to_string(entry.most) +
                             ", the most elements of a constant",
                         "--limit");
      return limits.*entry.limit = value, Status();
    }
  }
  if (name == "model-bytes" && value >= 0)
    return limits.modelBytes = static_cast<uint64_t>(value), Status();
  return makeError(Code::usage, badLimit, "'" + text + "' is not NAME=N with N >= 0", "--limit",
                   "names of limits are " + names);
}
