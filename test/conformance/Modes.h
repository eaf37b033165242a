//===- Modes.h - the ways a node test is run -----------------------------------===//
#pragma once

#include "test/conformance/NodeTest.h"

namespace zc::test {

enum class Verdict { passed, refused, failed };

struct Outcome {
  Verdict verdict = Verdict::failed;
  std::string detail; ///< the message of the refusal, or what is wrong
  /// Inputs whose values had to be fixed when compiling (shapes, axes, indices of sequences, ...): none, some, all.
  enum Fixed { none, some, all } fixed = none;
  std::string evidence = {}; ///< for the page of operators
};

/// How the imported module is executed.
enum class Mode {
  forward, ///< reference kernels, one buffer per value
  blocks,  ///< the same on the GPU's own kernels, over a host's blocks; what a GPU leaves to libraries by reference
           ///< kernels
  dynamic, ///< as forward, with every dimension of every input symbolic in the file and bound when compiling
  sharded, ///< as part of a training plan for two ranks at ZeRO stage 3, with the same inputs on both
};
constexpr const char *modeNames[] = {"forward", "blocks", "dynamic", "sharded"};

/// `scratch`: a folder for the rewritten model.
Outcome runNodeTest(NodeTest &test, Mode mode, const std::filesystem::path &scratch);

} // namespace zc::test
