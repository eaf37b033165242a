#include "runtime/cuda/Choices.h"

namespace zc::cuda {

Choices &Choices::instance() {
  static Choices all;
  return all;
}

void Choices::add(const char *library, const std::string &asked, const std::string &algorithm) {
  std::lock_guard<std::mutex> lock(mutex);
  taken[{library, asked}] = algorithm;
}

std::vector<LibraryChoice> Choices::all() const {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<LibraryChoice> list;
  for (const auto &[question, algorithm] : taken)
    list.push_back({question.first, question.second, algorithm});
  return list;
}

} // namespace zc::cuda
