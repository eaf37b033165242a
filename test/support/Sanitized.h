//===- Sanitized.h - is this build instrumented? ------------------------------------------===//
#pragma once

namespace zc::test {

/// Tests that go through many cases of a kind take some of them in such builds: that each is right the Release build
/// says, which takes all, and no memory is reached by one of them alone.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

} // namespace zc::test
