//===- Cases.h - what is tested against finite differences --------------------===//
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace zc::test {

/// One operation on f64 parameters. `operands` are types of parameters ("2x3xf64"), or constants ("dense<...> :
/// tensor<...>") that are not differentiated; `results` are the types of its results.
struct Case {
  std::string op;
  std::vector<std::string> operands;
  std::vector<std::string> results;
  std::string attributes = {};
  double low = -2, high = 2; ///< parameters are drawn from here, at least `gap` away from 0
  double gap = 0;
};

/// What gtest prints of a failed case.
inline void PrintTo(const Case &test, std::ostream *os) { *os << "graph." << test.op << " " << test.attributes; }

std::vector<Case> allCases();

} // namespace zc::test
