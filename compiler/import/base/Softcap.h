//===- Softcap.h - which softcaps attention has -----------------------------------===//
#pragma once

namespace zc::importer {

/// One that fp32 can compute with, and with what it divides. Others are left as they are written.
inline bool mayBeSoftcap(double cap) { return cap >= 1e-20 && cap <= 1e30; }

} // namespace zc::importer
