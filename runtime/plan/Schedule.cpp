#include "runtime/plan/Schedule.h"
#include "base/Suggest.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

namespace zc {

namespace {

using Keys = ScheduleKeys;

constexpr double kPi = 3.14159265358979323846;

double halfWave(double progress) { return 0.5 * (1 + std::cos(progress * kPi)); }

/// Share of the way from `from` to the full rate, `done` steps into a warm-up of `length`.
double risen(const Keys &k, int64_t done, int64_t length) {
  if (k.rise == Keys::Rise::log)
    return std::log(double(done + 1)) / std::log(double(std::max<int64_t>(2, length)));
  return double(done + (k.rise == Keys::Rise::linear)) / double(length);
}

double between(double least, double share) { return least + (1 - least) * share; }

/// Part of what is left behind the warm-up, in [0, 1].
double progressOf(const Keys &k, int64_t step) {
  double length = double(std::max<int64_t>(1, *k.steps - *k.warmup));
  return std::min(1.0, double(step - 1 - *k.warmup) / length);
}

template <double (*Fall)(const Keys &, int64_t step)> double warmed(const Keys &k, int64_t step) {
  if (step <= *k.warmup)
    return between(k.from, risen(k, step - 1, *k.warmup));
  return Fall(k, step);
}

double constant(const Keys &, int64_t) { return 1; }
double linear(const Keys &k, int64_t step) { return between(k.end, 1 - progressOf(k, step)); }
double cosine(const Keys &k, int64_t step) { return between(k.end, halfWave(progressOf(k, step))); }

double cosineRestarts(const Keys &k, int64_t step) {
  double progress = progressOf(k, step);
  return progress >= 1 ? k.end : between(k.end, halfWave(std::fmod(k.cycles * progress, 1.0)));
}

double polynomial(const Keys &k, int64_t step) { return between(k.end, std::pow(1 - progressOf(k, step), k.power)); }

/// As transformers' get_inverse_sqrt_schedule: by the warm-up, or by 10000 steps where there is none.
double inverseSqrt(const Keys &k, int64_t step) {
  double scale = double(*k.warmup > 0 ? *k.warmup : 10000);
  return 1 / std::sqrt((double(step - 1) + scale - double(*k.warmup)) / scale);
}

double wsd(const Keys &k, int64_t step) {
  double left = k.decay ? double(*k.steps - (step - 1)) / double(*k.decay) : (1 - progressOf(k, step)) / 0.2;
  double gone = 1 - std::clamp(left, 0.0, 1.0);
  if (k.fall == Keys::Fall::cosine)
    return between(k.end, halfWave(gone));
  return between(k.end, 1 - (k.fall == Keys::Fall::sqrt ? std::sqrt(gone) : gone));
}

/// DeepSpeed's `last_batch_iteration` while step `step` is computed: -1 in the first.
int64_t iterationOf(int64_t step) { return step - 2; }

int64_t deepspeedWarmup(const Keys &k) { return std::max<int64_t>(2, *k.warmup); }

template <double (*After)(const Keys &, int64_t iteration)> double deepspeed(const Keys &k, int64_t step) {
  int64_t iteration = std::max<int64_t>(0, iterationOf(step));
  if (iteration >= deepspeedWarmup(k))
    return After(k, iteration);
  return between(k.from, risen(k, iteration, deepspeedWarmup(k)));
}

double stays(const Keys &, int64_t) { return 1; }

double decays(const Keys &k, int64_t iteration) {
  double length = double(std::max<int64_t>(1, *k.steps - deepspeedWarmup(k)));
  return between(k.from, std::max(0.0, double(*k.steps - iteration) / length));
}

double waves(const Keys &k, int64_t iteration) {
  double length = double(std::max<int64_t>(1, *k.steps - deepspeedWarmup(k)));
  return between(k.end, halfWave(std::min(1.0, double(iteration - deepspeedWarmup(k) + 1) / length)));
}

/// Before its scheduler has stepped DeepSpeed's rate is 0 here, whatever `from` is (WarmupCosineLR.get_lr).
double deepspeedCosine(const Keys &k, int64_t step) { return iterationOf(step) < 0 ? 0 : deepspeed<waves>(k, step); }

double oneCycle(const Keys &k, int64_t step) {
  int64_t total = k.up + k.down, done = step - 1;
  if (iterationOf(step) >= total) {
    double falls = k.every > 0 && k.rate != 0 ? 1 + k.rate * double(done - total) / double(k.every) : 1;
    return k.from / falls;
  }
  done %= total;
  return between(k.from, done <= k.up ? double(done) / double(k.up) : double(total - done) / double(k.down));
}

struct Name {
  const char *name;
  double (*share)(const Keys &, int64_t step);
};
constexpr Name kNames[] = {{"constant", warmed<constant>},
                           {"linear", warmed<linear>},
                           {"cosine", warmed<cosine>},
                           {"wsd", warmed<wsd>},
                           {"cosine-restarts", warmed<cosineRestarts>},
                           {"polynomial", warmed<polynomial>},
                           {"inverse-sqrt", warmed<inverseSqrt>},
                           {"deepspeed-warmup", deepspeed<stays>},
                           {"deepspeed-warmup-decay", deepspeed<decays>},
                           {"deepspeed-warmup-cosine", deepspeedCosine},
                           {"deepspeed-one-cycle", oneCycle}};

/// Reads KEY=VALUE into `keys`; a key says where its value goes and what it may be.
class KeyReader {
public:
  explicit KeyReader(Keys &keys) : keys(keys) {}

  /// Empty, or what is wrong.
  std::string read(const std::string &key, const std::string &value) {
    for (const auto &[name, count, least] :
         {std::tuple("warmup", &keys.warmup, int64_t(0)), std::tuple("steps", &keys.steps, int64_t(1)),
          std::tuple("decay", &keys.decay, int64_t(1))})
      if (key == name) {
        int64_t parsed = 0;
        std::string problem = number(key, value, parsed, least);
        *count = parsed;
        return problem;
      }
    for (const auto &[name, count, least] :
         {std::tuple("up", &keys.up, int64_t(1)), std::tuple("down", &keys.down, int64_t(1)),
          std::tuple("every", &keys.every, int64_t(0))})
      if (key == name)
        return number(key, value, *count, least);
    for (const auto &[name, share] : {std::pair("from", &keys.from), std::pair("end", &keys.end)})
      if (key == name)
        return number(key, value, *share, 0, 1);
    for (const auto &[name, real] :
         {std::pair("cycles", &keys.cycles), std::pair("power", &keys.power), std::pair("rate", &keys.rate)})
      if (key == name)
        return number(key, value, *real, 0, 1e6);
    if (key == "rise")
      return choose(key, value, keys.rise, {"linear", "linear-from-zero", "log"});
    if (key == "fall")
      return choose(key, value, keys.fall, {"linear", "cosine", "sqrt"});
    return "has no key \"" + escapeName(key) + "\"";
  }

private:
  static std::string number(const std::string &key, const std::string &text, int64_t &value, int64_t least) {
    double parsed = 0;
    std::string problem = number(key, text, parsed, double(least), 0x1p53);
    if (problem.empty() && parsed != std::floor(parsed))
      problem = "needs a whole number for " + key;
    value = problem.empty() ? int64_t(parsed) : 0;
    return problem;
  }

  static std::string number(const std::string &key, const std::string &text, double &value, double least, double most) {
    char *end = nullptr;
    value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != 0)
      return "needs a number for " + key + ", not \"" + escapeName(text.substr(0, 40)) + "\"";
    if (!(value >= least && value <= most))
      return "has " + key + " = " + escapeName(text.substr(0, 40)) + " out of its range";
    return "";
  }

  template <typename E>
  static std::string choose(const std::string &key, const std::string &text, E &value,
                            std::initializer_list<const char *> names) {
    auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) {
      value = static_cast<E>(found - names.begin());
      return "";
    }
    std::string list;
    for (const char *name : names)
      list += (list.empty() ? "" : ", ") + std::string(name);
    return "needs " + key + " to be one of " + list;
  }

  Keys &keys;
};

const Name *find(const std::string &name) {
  auto found = std::find_if(std::begin(kNames), std::end(kNames), [&](const Name &n) { return name == n.name; });
  return found == std::end(kNames) ? nullptr : found;
}

std::string unknownName(const std::string &name) {
  std::vector<std::string> known;
  std::string list;
  for (const Name &n : kNames) {
    known.push_back(n.name);
    list += (list.empty() ? "" : ", ") + known.back();
  }
  std::string near = nearest(name, known);
  return "is none of " + list + (near.empty() ? "" : "; did you mean \"" + near + "\"?");
}

/// Empty, or what is wrong.
std::string parse(const std::string &text, const Name *&name, Keys &keys) {
  size_t colon = std::min(text.find(':'), text.size());
  name = find(text.substr(0, colon));
  if (!name)
    return unknownName(text.substr(0, colon));
  KeyReader reader(keys);
  for (size_t at = colon + 1; at < text.size();) {
    size_t end = std::min(text.find(',', at), text.size()), equals = std::min(text.find('=', at), end);
    if (equals == end)
      return "needs KEY=VALUE where it says \"" + escapeName(text.substr(at, end - at)) + "\"";
    std::string problem = reader.read(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
    if (!problem.empty())
      return problem;
    at = end + 1;
  }
  return "";
}

} // namespace

std::string Schedule::problem(const std::string &text) {
  const Name *name = nullptr;
  Keys keys;
  return parse(text, name, keys);
}

Result<Schedule> Schedule::create(const std::string &text, double rate, std::optional<int64_t> warmup, int64_t steps) {
  if (!(rate >= 0) || std::isinf(rate) || warmup.value_or(0) < 0)
    return makeError(Code::usage, 901, "learning rate and warm-up must not be negative", "--lr, --warmup");
  Schedule schedule;
  const Name *name = nullptr;
  if (std::string problem = parse(text, name, schedule.keys); !problem.empty())
    return makeError(Code::usage, 902, "schedule \"" + escapeName(text.substr(0, 100)) + "\" " + problem,
                     "--lr-schedule", "NAME[:KEY=VALUE,...], such as cosine:end=0.1; docs/cli.md lists them");
  Keys &keys = schedule.keys;
  schedule.share = name->share;
  schedule.rate = rate;
  keys.warmup = warmup ? *warmup : keys.warmup.value_or(0);
  keys.steps = keys.steps.value_or(steps);
  return schedule;
}

} // namespace zc
