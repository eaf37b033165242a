//===- Json.cpp - JSON from wherever it comes -------------------------------------------===//

#include "compiler/options/Json.h"
#include "base/Names.h"

#include <set>
#include <string>
#include <vector>

using namespace zc;

using Json = nlohmann::json;

namespace {

/// Hears the text's events before a tree is made of them, and stops where one may not be.
class Guard final : public nlohmann::json_sax<Json> {
public:
  std::string problem, help;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &name) override {
    if (keys.back().insert(name).second)
      return true;
    help = "the two may say different things";
    return refuse("\"" + escapeName(name.substr(0, 200)) + "\" is given twice");
  }
  bool parse_error(size_t, const std::string &, const Json::exception &error) override {
    const std::string what = error.what();
    const size_t line = what.find("line ");
    return refuse("this is no JSON: " +
                  escapeName((line == std::string::npos ? what : what.substr(line)).substr(0, 400)));
  }

private:
  bool open() {
    if (keys.size() == kMostJsonLevels)
      return refuse("this JSON has arrays and objects in more than " + std::to_string(kMostJsonLevels) + " levels");
    keys.emplace_back();
    return true;
  }
  bool close() { return keys.pop_back(), true; }
  bool refuse(std::string what) { return problem = std::move(what), false; }

  std::vector<std::set<std::string>> keys; ///< of each level that is open
};

} // namespace

Result<Json> zc::parseJson(std::string_view text, bool comments) {
  if (text.size() > kMostJsonBytes)
    return makeError(Code::badInput, 136,
                     "this JSON has " + std::to_string(text.size()) + " bytes, at most " +
                         std::to_string(kMostJsonBytes) + " are allowed");
  Guard guard;
  if (!Json::sax_parse(text, &guard, Json::input_format_t::json, /*strict=*/true, comments))
    return makeError(Code::badInput, 137, guard.problem, "", guard.help);
  return Json::parse(text, nullptr, /*allow_exceptions=*/true, comments);
}
