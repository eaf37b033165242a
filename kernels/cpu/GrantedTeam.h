//===- GrantedTeam.h - teams that the system has threads for -----------------------===//
#pragma once

namespace zc::cpu {

/// Of a team of `threads`, the calling one among them, as many as the system gives (ulimit -u, a group's pids.max, a
/// limit of addresses), and OpenMP's team of this thread made of them. OpenMP itself, asked for more, ends the process.
/// Callers come one after the other, so that none is granted what another one's team will take. Of a thread that has
/// been here for as many it is free.
int grantedTeam(int threads);

} // namespace zc::cpu
