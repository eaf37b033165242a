#include "runtime/train/Schedule.h"

#include <algorithm>
#include <cmath>

namespace zc::train {

static double constantShape(double) { return 1; }
static double linearShape(double progress) { return 1 - progress; }
static double cosineShape(double progress) { return 0.5 * (1 + std::cos(progress * 3.14159265358979323846)); }
static double wsdShape(double progress) { return std::min(1.0, (1 - progress) / 0.2); }

Result<Schedule> Schedule::create(const std::string &name, double rate, int64_t warmup, int64_t steps) {
  static constexpr struct {
    const char *name;
    Shape shape;
  } kShapes[] = {{"constant", constantShape}, {"linear", linearShape}, {"cosine", cosineShape}, {"wsd", wsdShape}};
  if (!(rate >= 0) || std::isinf(rate) || warmup < 0)
    return makeError(Code::usage, 901, "learning rate and warm-up must not be negative", "--lr, --warmup");
  Schedule schedule;
  for (const auto &known : kShapes)
    if (name == known.name)
      schedule.shape = known.shape;
  if (!schedule.shape)
    return makeError(Code::usage, 902, "unknown schedule \"" + name + "\"", "--lr-schedule",
                     "one of constant, linear, cosine, wsd");
  schedule.rate = rate;
  schedule.warmup = warmup;
  schedule.steps = steps;
  return schedule;
}

double Schedule::at(int64_t step) const {
  if (step <= warmup)
    return rate * double(step) / double(warmup);
  int64_t length = std::max<int64_t>(1, steps - warmup);
  double progress = std::min(1.0, double(step - 1 - warmup) / double(length));
  return rate * shape(progress);
}

} // namespace zc::train
