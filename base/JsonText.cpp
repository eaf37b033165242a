#include "base/JsonText.h"

#include <nlohmann/json.hpp>

namespace zc {

std::string jsonText(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace zc
