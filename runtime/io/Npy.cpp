#include "runtime/io/Npy.h"

#include <cstring>

namespace zc::io {

namespace {

constexpr int64_t kMaxDict = 1 << 20;

/// The few Python literals that a header's dict is made of.
class DictParser {
public:
  explicit DictParser(const std::string &text) : text(text) {}
  std::string descr;
  bool fortran = false, structured = false;
  std::vector<int64_t> shape;

  bool parse() {
    if (!take('{'))
      return false;
    int seen = 0;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':') || !value(key, seen))
        return false;
      if (!take(',') && peek() != '}')
        return false;
    }
    skip();
    return at == text.size() && seen == 7;
  }

private:
  /// Each of the three keys exactly once.
  bool value(const std::string &key, int &seen) {
    int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0 || (seen & bit))
      return false;
    seen |= bit;
    if (bit == 1) {
      if (peek() == '[') {
        structured = true;
        return false;
      }
      return quoted(descr);
    }
    return bit == 2 ? truth() : tuple();
  }
  bool truth() {
    skip();
    fortran = text.compare(at, 4, "True") == 0;
    if (!fortran && text.compare(at, 5, "False") != 0)
      return false;
    at += fortran ? 4 : 5;
    return true;
  }
  bool tuple() {
    if (!take('('))
      return false;
    while (!take(')')) {
      int64_t dim = 0;
      if (!number(dim) || shape.size() >= kMaxRank)
        return false;
      shape.push_back(dim);
      if (!take(',') && peek() != ')')
        return false;
    }
    return true;
  }
  bool number(int64_t &result) {
    skip();
    size_t start = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      if (__builtin_mul_overflow(result, int64_t(10), &result) ||
          __builtin_add_overflow(result, int64_t(text[at] - '0'), &result))
        return false;
    return at > start;
  }
  bool quoted(std::string &result) {
    skip();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"'))
      return false;
    size_t end = text.find(text[at], at + 1);
    if (end == std::string::npos)
      return false;
    result = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return true;
  }
  void skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t'))
      ++at;
  }
  char peek() {
    skip();
    return at < text.size() ? text[at] : '\0';
  }
  bool take(char c) {
    if (peek() != c)
      return false;
    ++at;
    return true;
  }

  const std::string &text;
  size_t at = 0;
};

Error notNpy(const std::string &path, const std::string &why) {
  return makeError(Code::badInput, 850, "not a valid .npy file: " + why, path);
}

Error foreign(const std::string &path, const std::string &what) {
  return makeError(
      Code::unsupported, 851, what + " is not supported", path,
      "save a plain little-endian array of numbers: numpy.save(file, numpy.ascontiguousarray(x, \"float32\"))");
}

struct Descr {
  const char *descr;
  std::optional<DType> dtype;
};
const Descr kDescrs[] = {{"f4", DType::f32}, {"f8", DType::f64}, {"f2", DType::f16},     {"i8", DType::i64},
                         {"i4", DType::i32}, {"i2", DType::i16}, {"i1", DType::i8},      {"u1", DType::u8},
                         {"u2", DType::u16}, {"u4", DType::u32}, {"b1", DType::boolean}, {"u8", DType::u64}};

Status readType(NpyFile &npy, const std::string &descr, const std::string &path) {
  if (descr.empty())
    return notNpy(path, "the element type is empty");
  if (descr[0] == '>')
    return foreign(path, "big-endian element type \"" + descr.substr(0, 40) + "\"");
  for (const Descr &known : kDescrs)
    if (descr.substr(1) == known.descr && (descr[0] == '<' || (descr[0] == '|' && descr[2] == '1'))) {
      npy.kind = descr[1];
      npy.elementBytes = descr[2] - '0';
      npy.dtype = known.dtype;
      return Status::success();
    }
  return foreign(path, "element type \"" + descr.substr(0, 40) + "\"");
}

/// Where the dict begins and how long it is, from the prelude. Version 1 has a 16-bit length, later ones 32 bits.
Result<std::string> readHeader(NpyFile &npy, const std::string &path) {
  unsigned char prelude[12] = {};
  if (npy.file.size() < 12)
    return notNpy(path, "it has only " + std::to_string(npy.file.size()) + " bytes");
  ZC_RETURN_IF_ERROR(npy.file.readAt(prelude, 12, 0));
  if (std::memcmp(prelude, "\x93NUMPY", 6) != 0)
    return notNpy(path, "it does not begin with \"\\x93NUMPY\"");
  if (prelude[6] < 1 || prelude[6] > 3 || prelude[7] != 0)
    return foreign(path, "format version " + std::to_string(prelude[6]) + "." + std::to_string(prelude[7]));
  int64_t start = prelude[6] == 1 ? 10 : 12;
  int64_t length = prelude[8] | prelude[9] << 8;
  if (prelude[6] != 1)
    length |= int64_t(prelude[10]) << 16 | int64_t(prelude[11]) << 24;
  if (length > kMaxDict || length > npy.file.size() - start)
    return notNpy(path, "the header is said to have " + std::to_string(length) + " bytes");
  std::string header(size_t(length), '\0');
  ZC_RETURN_IF_ERROR(npy.file.readAt(header.data(), length, start));
  npy.offset = start + length;
  if (header.empty() || header.back() != '\n')
    return notNpy(path, "the header does not end with a newline");
  return header;
}

} // namespace

Result<NpyFile> NpyFile::open(const std::string &path) {
  auto opened = File::open(path);
  if (!opened)
    return opened.error();
  return read(std::move(*opened));
}

Result<NpyFile> NpyFile::read(File file) {
  NpyFile npy;
  npy.file = std::move(file);
  const std::string path = npy.file.path();
  auto header = readHeader(npy, path);
  if (!header)
    return header.error();
  DictParser dict(*header);
  if (!dict.parse())
    return dict.structured ? foreign(path, "an array of structures") : notNpy(path, "its header cannot be read");
  if (dict.fortran && dict.shape.size() > 1)
    return foreign(path, "Fortran order");
  ZC_RETURN_IF_ERROR(readType(npy, dict.descr, path));
  int64_t elements = 1;
  for (int64_t dim : dict.shape)
    if (dim > kMaxElements || __builtin_mul_overflow(elements, dim, &elements) || elements > kMaxElements)
      return notNpy(path, "too many elements");
  if (elements * npy.elementBytes != npy.file.size() - npy.offset)
    return notNpy(path, "its shape needs " + std::to_string(elements * npy.elementBytes) + " bytes, but " +
                            std::to_string(npy.file.size() - npy.offset) + " follow the header");
  npy.dims = std::move(dict.shape);
  return npy;
}

} // namespace zc::io
