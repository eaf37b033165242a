//===- StandardStreams.h - what a program's input and outputs may be at its start ----===//
#pragma once

namespace zc {

/// What a program's main begins with. Descriptors 0 to 2 exist afterwards, so that no file of ours takes their place.
/// A closed pipe and a limit of a file's size are errors of a write, not signals.
void guardStandardStreams();

} // namespace zc
