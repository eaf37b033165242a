//===- Operators.h - the page of operators ---------------------------------------===//
//
// compiler/import/OPERATORS.md is written from the handler table and from what node tests show: the element types with
// which an operator's tests pass, and whether its graph has a gradient.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "test/conformance/NodeTest.h"

#include <map>
#include <set>
#include <string>

namespace zc::test {

/// What one passed test shows of its operator, as a line of text; empty if it has several operators.
std::string evidenceOf(const NodeTest &test, mlir::ModuleOp module);

class OperatorPage {
public:
  void add(const std::string &evidence);
  std::string text() const;

private:
  struct Shown {
    std::set<std::string> types;
    std::set<std::string> gradients;
    int tests = 0;
  };
  std::map<std::string, Shown> operators; ///< by "domain.op"
};

} // namespace zc::test
