#include "test/conformance/SkipList.h"

#include <fstream>

using namespace zc::test;

bool SkipList::read(const std::filesystem::path &path, std::string &problem) {
  std::ifstream file(path);
  if (!file) {
    problem = "cannot read " + path.string();
    return false;
  }
  std::string reason;
  std::optional<Mode> mode;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line.erase(line.find_last_not_of(" \t") + 1);
    if (line.empty() || line[0] == '#')
      continue;
    if (line[0] == ':') {
      size_t end = line.find(':', 1);
      mode.reset();
      for (int i = 0; i < 3; ++i)
        if (end != std::string::npos && line.substr(1, end - 1) == modeNames[i])
          mode = static_cast<Mode>(i);
      reason = line.substr(line.find_first_not_of(" ", mode ? end + 1 : 1));
      continue;
    }
    if (reason.empty()) {
      problem = path.string() + ":" + std::to_string(number) + ": no reason above";
      return false;
    }
    entries.push_back({line, reason, std::regex(line), mode, false});
  }
  return true;
}

const std::string *SkipList::reasonFor(const std::string &name, Mode mode) {
  const std::string *reason = nullptr;
  for (Entry &entry : entries) {
    bool inMode = !entry.mode || *entry.mode == mode;
    if ((inMode || !entry.used) && std::regex_match(name, entry.names)) {
      entry.used = true;
      if (inMode)
        reason = &entry.reason;
    }
  }
  return reason;
}

std::vector<std::string> SkipList::unused() const {
  std::vector<std::string> texts;
  for (const Entry &entry : entries)
    if (!entry.used)
      texts.push_back(entry.text);
  return texts;
}
