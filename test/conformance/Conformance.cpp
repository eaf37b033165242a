//===- Conformance.cpp - runs ONNX's backend node tests ------------------------===//
//
//   zc-conformance FOLDER [--mode forward|blocks|dynamic|sharded]... [--filter REGEX] [--verbose]
//                  [--minimum FILE] [--skip FILE] [--page FILE | --operators FILE]
//
// Each test of each mode passes, or stands in the skip list and is refused. A test in the list that passes, or that
// gives wrong results instead of being refused, fails the run, as does an expression of the list that matches nothing,
// or fewer passed tests than the minimum. Tests run in a child process, so that one that crashes or hangs is one
// failure.
//
//===----------------------------------------------------------------------===//
#include "test/conformance/Operators.h"
#include "test/conformance/SkipList.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

using namespace zc::test;
namespace fs = std::filesystem;

namespace {

constexpr unsigned secondsPerTest = 60;

struct Options {
  fs::path folder, skip, minimum, page, writePage;
  std::vector<Mode> modes;
  std::string filter = ".*";
  bool verbose = false;
};

bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--verbose") {
      options.verbose = true;
      continue;
    }
    if (flag.rfind("--", 0) != 0) {
      options.folder = flag;
      continue;
    }
    std::string value = ++i < argc ? argv[i] : "";
    if (flag == "--filter")
      options.filter = value;
    else if (flag == "--skip")
      options.skip = value;
    else if (flag == "--minimum")
      options.minimum = value;
    else if (flag == "--page")
      options.page = value;
    else if (flag == "--operators")
      options.writePage = value;
    else if (auto name = std::find(std::begin(modeNames), std::end(modeNames), value);
             flag == "--mode" && name != std::end(modeNames))
      options.modes.push_back(static_cast<Mode>(name - std::begin(modeNames)));
    else
      return false;
  }
  if (options.modes.empty())
    options.modes = {Mode::forward, Mode::blocks, Mode::dynamic, Mode::sharded};
  return !options.folder.empty();
}

/// What the child writes of one test.
struct Record {
  Verdict verdict;
  Outcome::Fixed fixed;
  uint32_t detail, evidence; ///< bytes of each that follow
};

bool readAll(int file, void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = read(file, static_cast<char *>(to) + done, bytes - done);
    if (n <= 0)
      return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

/// In the child: test after test, until all are done or one ends the process.
[[noreturn]] void runFrom(std::vector<NodeTest *> &tests, size_t first, Mode mode, const fs::path &scratch, int to) {
  for (size_t i = first; i < tests.size(); ++i) {
    alarm(secondsPerTest);
    NodeTest test = *tests[i];
    Outcome outcome = runNodeTest(test, mode, scratch);
    outcome.detail.resize(std::min<size_t>(outcome.detail.size(), 4000));
    Record record{outcome.verdict, outcome.fixed, static_cast<uint32_t>(outcome.detail.size()),
                  static_cast<uint32_t>(outcome.evidence.size())};
    std::string text(reinterpret_cast<const char *>(&record), sizeof(record));
    text += outcome.detail + outcome.evidence;
    if (write(to, text.data(), text.size()) < 0)
      break;
  }
  _exit(0);
}

/// Runs all tests in child processes: one, and another one for the rest each time one ends too early.
template <typename Visit>
void runApart(std::vector<NodeTest *> tests, Mode mode, const fs::path &scratch, Visit visit) {
  for (size_t next = 0; next < tests.size();) {
    int ends[2];
    if (pipe(ends) != 0)
      return;
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0)
      runFrom(tests, next, mode, scratch, ends[1]);
    close(ends[1]);
    Record record;
    while (next < tests.size() && readAll(ends[0], &record, sizeof(record))) {
      std::string detail(record.detail, '\0'), evidence(record.evidence, '\0');
      if (!readAll(ends[0], detail.data(), detail.size()) || !readAll(ends[0], evidence.data(), evidence.size()))
        break;
      visit(*tests[next++], Outcome{record.verdict, detail, record.fixed, evidence});
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (next == tests.size())
      return;
    std::string how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit code " + std::to_string(status >> 8);
    visit(*tests[next++], Outcome{Verdict::failed, "its process ended: " + how, Outcome::none});
  }
}

struct Count {
  int passed = 0, skipped = 0, failed = 0, someFixed = 0, allFixed = 0;
};

class Report {
public:
  explicit Report(const Options &options) : options(options) {}

  void add(const NodeTest &test, Mode mode, const Outcome &outcome, const std::string *reason) {
    Count &count = total[mode], &family = families[test.family][mode];
    bool passed = outcome.verdict == Verdict::passed;
    bool isFine = reason ? outcome.verdict == Verdict::refused : passed;
    if (!isFine) {
      ++count.failed, ++family.failed;
      std::printf("FAILED %s %s: %s\n", modeNames[static_cast<int>(mode)], test.name.c_str(),
                  reason && passed ? "passes, but stands in the skip list" : outcome.detail.c_str());
      return;
    }
    if (passed) {
      page.add(outcome.evidence);
      ++count.passed, ++family.passed;
      count.someFixed += outcome.fixed == Outcome::some;
      count.allFixed += outcome.fixed == Outcome::all;
    } else {
      ++count.skipped, ++family.skipped;
    }
    if (options.verbose)
      std::printf("%s %s %s%s\n", passed ? "passed" : "skipped", modeNames[static_cast<int>(mode)], test.name.c_str(),
                  outcome.detail.empty() ? "" : (": " + outcome.detail).c_str());
  }
  void fail(const std::string &what) {
    ++otherFailures;
    std::printf("FAILED %s\n", what.c_str());
  }

  /// Passed and skipped per operator, sums, and whether as many pass as must.
  void print() {
    std::printf("\n%-36s", "operator");
    for (Mode mode : options.modes)
      std::printf(" %8s %7s", modeNames[static_cast<int>(mode)], "skipped");
    auto row = [&](const std::string &name, auto &counts) {
      std::printf("\n%-36s", name.c_str());
      for (Mode mode : options.modes)
        std::printf(" %8d %7d", counts[mode].passed, counts[mode].skipped);
    };
    for (auto &[name, counts] : families)
      row(name, counts);
    row("all", total);
    std::printf("\n");
    for (Mode mode : options.modes)
      std::printf("%s: %d pass, of them %d with some inputs known when compiling, %d with all\n",
                  modeNames[static_cast<int>(mode)], total[mode].passed, total[mode].someFixed, total[mode].allFixed);
  }

  /// Writes the page of operators, or compares it with what is written.
  void checkPage() {
    if (!options.writePage.empty()) {
      std::ofstream(options.writePage) << page.text();
      return;
    }
    std::ifstream file(options.page);
    std::string written((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (written != page.text())
      fail(options.page.string() + " is not what the handlers and tests say: write it anew with --operators");
  }

  void checkMinimum() {
    std::ifstream file(options.minimum);
    std::map<std::string, int> minimum;
    std::string name;
    for (int least; file >> name >> least;)
      minimum[name] = least;
    for (Mode mode : options.modes) {
      name = modeNames[static_cast<int>(mode)];
      if (!minimum.count(name))
        fail("no minimum for mode " + name);
      else if (total[mode].passed < minimum[name])
        fail("only " + std::to_string(total[mode].passed) + " tests pass in mode " + name + ", " +
             std::to_string(minimum[name]) + " must");
    }
  }

  int finish() {
    Count sum;
    sum.failed = otherFailures;
    for (auto &[mode, count] : total) {
      sum.passed += count.passed;
      sum.skipped += count.skipped;
      sum.failed += count.failed;
    }
    std::printf("%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped);
    return sum.failed > 0 || sum.passed == 0;
  }

private:
  const Options &options;
  std::map<Mode, Count> total;
  std::map<std::string, std::map<Mode, Count>> families;
  OperatorPage page;
  int otherFailures = 0;
};

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: zc-conformance FOLDER [--mode forward|blocks|dynamic|sharded]... [--filter REGEX] "
                         "[--verbose] [--skip FILE] [--minimum FILE] [--page FILE | --operators FILE]\n");
    return 2;
  }
  Report report(options);
  SkipList skips;
  if (std::string problem; !options.skip.empty() && !skips.read(options.skip, problem))
    report.fail(problem);
  std::vector<NodeTest> tests = findNodeTests(options.folder);
  std::regex filter(options.filter);
  std::vector<NodeTest *> chosen;
  for (NodeTest &test : tests)
    if (std::regex_match(test.name, filter))
      chosen.push_back(&test);
  for (Mode mode : options.modes) {
    std::map<std::string, const std::string *> reasons;
    for (NodeTest &test : tests) // all of them: an expression that matches nothing is reported
      reasons[test.name] = skips.reasonFor(test.name, mode);
    runApart(chosen, mode, options.folder, [&](const NodeTest &test, const Outcome &outcome) {
      report.add(test, mode, outcome, reasons[test.name]);
    });
  }
  report.print();
  for (const std::string &text : skips.unused())
    report.fail("the skip list's '" + text + "' matches no test");
  if (!options.minimum.empty())
    report.checkMinimum();
  if (!options.writePage.empty() || !options.page.empty())
    report.checkPage();
  return report.finish();
}
