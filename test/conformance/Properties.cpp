#include "test/conformance/Properties.h"

#include <cmath>
#include <regex>

using namespace zc;
using namespace zc::test;

namespace {

std::string sameTypes(const NodeTest &test, const std::vector<NodeValue> &actual) {
  if (actual.size() != test.expected.size())
    return std::to_string(actual.size()) + " outputs, not " + std::to_string(test.expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (actual[i].dtype != test.expected[i].dtype || actual[i].dims != test.expected[i].dims)
      return "output " + std::to_string(i) + " has another type or shape";
  return "";
}

std::string exact(const NodeTest &test, const std::vector<NodeValue> &actual) {
  if (actual.size() != test.expected.size())
    return std::to_string(actual.size()) + " outputs, not " + std::to_string(test.expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (std::string wrong = difference(test.expected[i], actual[i]); !wrong.empty())
      return wrong;
  return "";
}

/// A share of n draws of probability p is further off than this once in ten thousand.
bool isLikely(double share, double p, int64_t n) {
  return std::abs(share - p) <= 4 * std::sqrt(p * (1 - p) / static_cast<double>(n)) + 1e-9;
}

/// Zeros and ones; as many ones as the probabilities, the input, say.
std::string bernoulli(const NodeTest &test, const std::vector<NodeValue> &actual) {
  if (std::string wrong = sameTypes(test, actual); !wrong.empty())
    return wrong;
  double ones = 0, expected = 0;
  int64_t n = countElements(actual[0]);
  for (int64_t i = 0; i < n; ++i) {
    double y = elementAt(actual[0], i);
    if (y != 0 && y != 1)
      return "element " + std::to_string(i) + " is " + std::to_string(y);
    ones += y;
    expected += elementAt(test.inputs[0], i);
  }
  return isLikely(ones / n, expected / n, n) ? "" : std::to_string(ones) + " ones of " + std::to_string(n);
}

/// Each element is 0 or x / (1 - ratio), as the mask says; a share `ratio` of them is 0.
std::string dropout(const NodeTest &test, const std::vector<NodeValue> &actual) {
  if (std::string wrong = sameTypes(test, actual); !wrong.empty())
    return wrong;
  double ratio = test.inputs.size() > 1 && !test.inputs[1].bytes.empty() ? elementAt(test.inputs[1], 0) : 0.5;
  int64_t zeros = 0, n = countElements(actual[0]);
  for (int64_t i = 0; i < n; ++i) {
    double x = elementAt(test.inputs[0], i), y = elementAt(actual[0], i);
    bool kept = std::abs(y - x / (1 - ratio)) <= 1e-5 * std::abs(x);
    if (!kept && y != 0)
      return "element " + std::to_string(i) + " is " + std::to_string(y) + " of " + std::to_string(x);
    if (actual.size() > 1 && elementAt(actual[1], i) != kept)
      return "the mask contradicts element " + std::to_string(i);
    zeros += !kept;
  }
  return isLikely(double(zeros) / n, ratio, n) ? "" : std::to_string(zeros) + " zeros of " + std::to_string(n);
}

struct Row {
  const char *names;
  std::string (*check)(const NodeTest &, const std::vector<NodeValue> &);
};
constexpr Row table[] = {
    {"test_bernoulli.*", bernoulli}, {"test_training_dropout(_default)?(_mask)?", dropout}, {".*", exact}};

} // namespace

static const Row &rowOf(const NodeTest &test) {
  for (const Row &row : table)
    if (std::regex_match(test.name, std::regex(row.names)))
      return row;
  return *std::rbegin(table);
}

bool test::isRandom(const NodeTest &test) { return rowOf(test).check != exact; }

std::string test::checkProperties(const NodeTest &test, const std::vector<NodeValue> &actual) {
  return rowOf(test).check(test, actual);
}
