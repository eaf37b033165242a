//===- RankLines.h - what ranks tell their launcher -----------------------------------===//
#pragma once

#include <string_view>

namespace zc::launch {

/// Where this is set, a rank's first line on stderr is kStartedLine and its number: the launcher counts them. One that
/// ends because the job has failed says kEndedLine and its exit code: mpirun may wait for a host that is gone.
inline constexpr const char *kLaunchedVariable = "ZC_LAUNCHED";
inline constexpr std::string_view kStartedLine = "zero-run: started rank ";
inline constexpr std::string_view kEndedLine = "zero-run: ended with code ";

} // namespace zc::launch
