//===- Properties.h - what a node test's outputs must be -----------------------===//
#pragma once

#include "test/conformance/NodeTest.h"

namespace zc::test {

/// What is wrong with `actual`, empty if nothing is. Outputs are compared with the expected ones; random ones, which
/// ONNX draws from numpy's generator, have the properties their distributions have instead.
std::string checkProperties(const NodeTest &test, const std::vector<NodeValue> &actual);

/// Whether outputs are drawn at random: each rank has its own.
bool isRandom(const NodeTest &test);

} // namespace zc::test
