#include "base/Status.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace zc {

namespace {

/// One decoded character of a string: its code point and how many bytes it takes; `length` 1 and `valid` false for a
/// byte that starts no well-formed UTF-8 sequence (overlong forms and surrogates included).
struct Character {
  uint32_t codePoint = 0;
  size_t length = 1;
  bool valid = false;
};

Character decode(const std::string &text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(at);
  if (lead < 0x80)
    return {lead, 1, true};
  size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  static constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size())
    return {};
  uint32_t codePoint = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80)
      return {};
    codePoint = codePoint << 6 | (byte(at + i) & 0x3Fu);
  }
  if (codePoint < kSmallest[length] || codePoint > 0x10FFFF || (codePoint >= 0xD800 && codePoint <= 0xDFFF))
    return {};
  return {codePoint, length, true};
}

/// Characters that steer a terminal or reorder text: C0, DEL, C1, bidirectional controls, line separators, BOM.
bool isHarmful(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void appendLine(std::string &out, const char *lead, const std::string &text) {
  if (!text.empty())
    out += lead + escapeName(text);
}

} // namespace

/// Bytes of ASCII, eight at a time, that `text` begins with; it may be more.
static size_t asciiWords(const std::string &text) {
  uint64_t word = 0;
  size_t at = 0;
  for (; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if (word & 0x8080808080808080u)
      break;
  }
  return at;
}

bool isValidUtf8(const std::string &text) {
  for (size_t at = asciiWords(text); at < text.size();) {
    Character c = decode(text, at);
    if (!c.valid)
      return false;
    at += c.length;
  }
  return true;
}

std::string escapeName(const std::string &name) {
  std::string out;
  out.reserve(name.size());
  for (size_t at = 0; at < name.size();) {
    Character c = decode(name, at);
    if (c.valid && !isHarmful(c.codePoint)) {
      out.append(name, at, c.length);
    } else {
      for (size_t i = 0; i < c.length; ++i) {
        char hex[5];
        std::snprintf(hex, sizeof hex, "\\x%02X", static_cast<unsigned char>(name[at + i]));
        out += hex;
      }
    }
    at += c.length;
  }
  return out;
}

std::string render(const Error &error) {
  char lead[32];
  std::snprintf(lead, sizeof lead, "error[Z%04d]: ", error.number);
  std::string out = lead + escapeName(error.message);
  appendLine(out, "\n  --> ", error.where);
  appendLine(out, "\n  = note: ", error.note);
  appendLine(out, "\n  = help: ", error.help);
  return out;
}

} // namespace zc
