#include "runtime/train/ExternalNames.h"

#include <cstdint>
#include <string_view>

namespace zc::train {

namespace {

/// Numbers of onnx.proto's fields, from the model down to an initializer's external data.
constexpr uint64_t kPath[] = {/*graph*/ 7, /*initializer*/ 5, /*external_data*/ 13};
constexpr size_t kDepth = sizeof kPath / sizeof *kPath;
constexpr uint64_t kKey = 1, kValue = 2; // of an entry
constexpr uint64_t kLength = 2;          // wire type

class Rewriter {
public:
  explicit Rewriter(const std::map<std::string, std::string> &names) : names(names) {}

  /// Appends `message`, of the kind at `depth` of the path, to `to`; false where it is none.
  bool rewrite(std::string_view message, size_t depth, std::string &to) const {
    if (depth == kDepth)
      return entry(message, to);
    return eachField(message, [&](uint64_t tag, std::string_view whole, std::string_view content) {
      if (tag != (kPath[depth] << 3 | kLength)) {
        to += whole;
        return true;
      }
      std::string inner;
      if (!rewrite(content, depth + 1, inner))
        return false;
      appendField(tag, inner, to);
      return true;
    });
  }

private:
  bool entry(std::string_view message, std::string &to) const {
    bool isLocation = false;
    return eachField(message,
                     [&](uint64_t tag, std::string_view, std::string_view content) {
                       isLocation |= tag == (kKey << 3 | kLength) && content == "location";
                       return true;
                     }) &&
           eachField(message, [&](uint64_t tag, std::string_view whole, std::string_view content) {
             auto name = isLocation && tag == (kValue << 3 | kLength) ? names.find(std::string(content)) : names.end();
             if (name == names.end())
               to += whole;
             else
               appendField(tag, name->second, to);
             return true;
           });
  }

  /// Calls see(tag, field, content) for each field, until it returns false; content is of those with a length.
  template <typename See> static bool eachField(std::string_view message, See see) {
    while (!message.empty()) {
      std::string_view rest = message, content;
      uint64_t tag = 0, number = 0;
      if (!takeVarint(rest, tag))
        return false;
      switch (tag & 7) {
      case 0:
        if (!takeVarint(rest, number))
          return false;
        break;
      case kLength:
        if (!takeVarint(rest, number) || number > rest.size())
          return false;
        content = rest.substr(0, number);
        rest.remove_prefix(number);
        break;
      case 1:
      case 5: {
        const size_t width = (tag & 7) == 1 ? 8 : 4;
        if (rest.size() < width)
          return false;
        rest.remove_prefix(width);
        break;
      }
      default:
        return false;
      }
      if (!see(tag, message.substr(0, message.size() - rest.size()), content))
        return false;
      message = rest;
    }
    return true;
  }

  static bool takeVarint(std::string_view &from, uint64_t &value) {
    value = 0;
    for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(from.front());
      from.remove_prefix(1);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        return true;
    }
    return false;
  }

  static void appendVarint(uint64_t value, std::string &to) {
    for (; value > 127; value >>= 7)
      to += static_cast<char>((value & 127) | 128);
    to += static_cast<char>(value);
  }

  static void appendField(uint64_t tag, std::string_view content, std::string &to) {
    appendVarint(tag, to);
    appendVarint(content.size(), to);
    to += content;
  }

  const std::map<std::string, std::string> &names;
};

} // namespace

Result<std::string> withExternalNames(const std::string &model, const std::map<std::string, std::string> &names) {
  std::string renamed;
  if (!Rewriter(names).rewrite(model, 0, renamed))
    return makeError(Code::badInput, 980, "the model is no ONNX file any more");
  return renamed;
}

} // namespace zc::train
