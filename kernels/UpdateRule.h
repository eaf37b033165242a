//===- UpdateRule.h - kinds of optimizers --------------------------------------------===//
#pragma once

#include "base/Names.h"

#include <cstdint>

namespace zc {

/// torch.optim's AdamW, Adam, SGD, and SGD with momentum. Its kernels have its name.
enum class UpdateRule : uint8_t { adamw, adam, sgd, momentum };
constexpr std::array<const char *, 4> namesOf(UpdateRule) { return {"adamw", "adam", "sgd", "momentum"}; }

/// Tensors of the parameter's size, in fp32, that a rule keeps from step to step.
constexpr unsigned momentsOf(UpdateRule rule) {
  return rule == UpdateRule::sgd ? 0 : rule == UpdateRule::momentum ? 1 : 2;
}

} // namespace zc
