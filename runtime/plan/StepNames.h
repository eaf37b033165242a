//===- StepNames.h - kernels that steps name and no registry has ---------------------------===//
#pragma once

namespace zc {

/// Takes the input that attribute `input` says from the run's data.
inline constexpr const char *kLoadInput = "load_input";
/// Hands over the output that attribute `output` says.
inline constexpr const char *kStoreOutput = "store_output";

} // namespace zc
