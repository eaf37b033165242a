//===- OutOfRange.h - what is said of an index or label that a body found -------------------===//
#pragma once

#include "kernels/cpu/HeadShapes.h"
#include "kernels/cpu/Shapes.h"

namespace zc::cuda {

/// As the CPU's kernels say it.
inline Error outOfRange(const KernelSpec &spec, int64_t value) {
  auto label = [&](const auto &read) {
    return cpu::outOfRange(spec, "label", value, 0, read.ok() ? read->classes : 0);
  };
  auto index = [&](const auto &read) {
    int64_t n = read.ok() ? read->n : 0;
    return cpu::outOfRange(spec, "index", value, -n, n);
  };
  if (spec.name == "cross_entropy")
    return label(cpu::readCrossEntropy(spec));
  if (spec.name == "cross_entropy_grad")
    return label(cpu::readCrossEntropyGrad(spec));
  if (spec.name == "linear_cross_entropy")
    return label(cpu::readHead(spec));
  if (spec.name == "linear_cross_entropy_grad")
    return label(cpu::readHeadGrad(spec));
  if (spec.name == "label_index")
    return label(cpu::readLabelIndex(spec));
  if (spec.name == "gather")
    return index(cpu::readGather(spec));
  if (spec.name == "gather_grad")
    return index(cpu::readGatherGrad(spec));
  return makeError(Code::badInput, 712,
                   "index " + std::to_string(value) + " of kernel '" + spec.name + "' is out of range");
}

} // namespace zc::cuda
