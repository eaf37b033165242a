//===- JsonText.h - a string as JSON has it ---------------------------------------===//
#pragma once

#include <string>

namespace zc {

/// A JSON string literal, for who writes objects piece by piece; bytes that are not UTF-8 are replaced, so that what it
/// stands in stays valid whatever the text.
std::string jsonText(const std::string &text);

} // namespace zc
