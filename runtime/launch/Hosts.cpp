#include "runtime/launch/Hosts.h"

#include "base/File.h"

#include <algorithm>
#include <sstream>
#include <sys/stat.h>

namespace zc::launch {

static Error badHost(const std::string &line) {
  return makeError(Code::usage, 972, "\"" + line + "\" is no host", "--hosts",
                   "give a:2,b:2 or a file with lines like \"a slots=2\"");
}

static Result<Host> parseHost(const std::string &line, int perHost) {
  Host host;
  host.ranks = perHost;
  size_t end = line.find_first_of(": \t");
  host.name = line.substr(0, end);
  const bool hasMore = end != std::string::npos;
  std::string rest = hasMore ? line.substr(std::min(line.find_first_not_of(": \t", end), line.size())) : "";
  if (rest.compare(0, 6, "slots=") == 0)
    rest.erase(0, 6);
  constexpr size_t kLongestName = 253; // of the domain name system; Open MPI has room for little more
  if (host.name.empty() || host.name.size() > kLongestName || host.name[0] == '-' ||
      host.name.find('/') != std::string::npos || (hasMore && rest.empty()) || rest.size() > 5 ||
      rest.find_first_not_of("0123456789") != std::string::npos)
    return badHost(line);
  if (!rest.empty())
    host.ranks = std::stoi(rest);
  if (host.ranks < 1)
    return badHost(line);
  return host;
}

Result<std::vector<Host>> parseHosts(const std::string &text, int perHost) {
  std::string list = text;
  struct stat status;
  bool isFile = ::stat(text.c_str(), &status) == 0;
  if (isFile) {
    auto read = readFile(text, 1 << 20);
    if (!read)
      return read.error();
    list = *read;
  }
  std::vector<Host> hosts;
  std::istringstream in(list);
  for (std::string line; std::getline(in, line, isFile ? '\n' : ',');) {
    line = line.substr(0, line.find('#'));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty())
      continue;
    auto host = parseHost(line, perHost);
    if (!host)
      return host.error();
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty())
    return badHost(text);
  return hosts;
}

int ranksOf(const std::vector<Host> &hosts) {
  int total = 0;
  for (const Host &host : hosts)
    total += host.ranks;
  return total;
}

} // namespace zc::launch
