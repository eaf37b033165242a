//===- PlanFile.h - the container around a plan message -----------------------===//
//
// Layout, all numbers little-endian:
//
//     0   8   magic "\x89ZCPLAN\n"
//     8   4   container version (kPlanFormat)
//     12  4   endianness tag 0x01020304
//     16  8   bytes of the whole file
//     24  4   sections (1 to 16)
//     28  4   zero
//     32  40n one entry per section: kind u32, zero u32, offset u64, bytes u64, XXH3-128 of its bytes
//     ..  16  XXH3-128 of everything before
//     ..      the sections, back to back in table order, up to the end of the file
//
// Section kind 1 is the Plan message; others are refused. Every byte of the file is covered by a hash or is a magic,
// version or tag. The hashes find accidents, not attackers: verifyPlan (Verify.h) is what makes a plan safe to run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace zc {

/// Version of the container and of the message in it; `Plan.format`.
constexpr uint32_t kPlanFormat = 8;

/// Unwraps and parses; does not verify (verifyPlan does).
/// Errors: missing or not a regular file (bad input), another magic, version or endianness (mismatch), anything
/// truncated, trailing or altered (corrupt).
Result<planpb::Plan> readPlan(const std::string &path);
/// The same from memory; `name` is where errors are said to be.
Result<planpb::Plan> readPlan(std::string_view bytes, const std::string &name);

/// The container's bytes; the same plan always gives the same bytes.
/// Errors: larger than the 2 GiB of a Protobuf message (unsupported).
Result<std::string> packPlan(const planpb::Plan &plan);
/// packPlan, written atomically (writeFileAtomically). Errors: io.
Status writePlan(const std::string &path, const planpb::Plan &plan);

/// XXH3-64 of the serialised message: equal on all ranks of a job and in its checkpoints. Without
/// `command`: flags that change nothing make no other plan.
uint64_t planHash(planpb::Plan plan);

} // namespace zc
