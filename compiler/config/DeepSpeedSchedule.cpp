//===- DeepSpeedSchedule.cpp - "scheduler" as --lr-schedule -----------------------------===//
//
// Formulas: runtime/plan/Schedule.h. Defaults are those of DeepSpeed 0.19's constructors (runtime/lr_schedules.py).
//
//===----------------------------------------------------------------------===//

#include "compiler/config/DeepSpeedKeys.h"

#include <cstdlib>

namespace zc {

namespace {

using Json = nlohmann::json;

const std::string kParams = "/scheduler/params/";

std::string text(double number) { return Json(number).dump(); }

/// "rise" and "warmup" of the three that warm up.
Status readWarmup(DeepSpeedKeys &keys, std::string &schedule) {
  int64_t steps = keys.isAuto(kParams + "warmup_num_steps") ? 0 : 1000;
  ZC_RETURN_IF_ERROR(keys.read(kParams + "warmup_num_steps", steps));
  const Json *type = keys.find(kParams + "warmup_type");
  if (type && *type != "log" && *type != "linear")
    return keys.wrong(kParams + "warmup_type", "log or linear");
  schedule += ":warmup=" + std::to_string(steps) + (type && *type == "linear" ? ",rise=linear-from-zero" : ",rise=log");
  return Status::success();
}

/// Steps that the schedule is made for; where "auto", those of the run.
Status readTotal(DeepSpeedKeys &keys, std::string &schedule) {
  const std::string key = kParams + "total_num_steps";
  int64_t steps = 0;
  ZC_RETURN_IF_ERROR(keys.read(key, steps, 1));
  if (keys.isAuto(key))
    return Status::success();
  if (!keys.find(key))
    return keys.wrong(key, "given");
  schedule += ",steps=" + std::to_string(steps);
  keys.note("the schedule is made for zero-run --steps " + std::to_string(steps));
  return Status::success();
}

/// The rate that the schedule reaches is --lr, and the least one its share. A `rate` of 0 is the optimizer's; the
/// flag's wins, `given`, unless that is 0.
Status readRates(DeepSpeedKeys &keys, const std::string &least, const std::string &most, double rate, double given,
                 std::string &schedule, const char *separator) {
  double from = 0;
  ZC_RETURN_IF_ERROR(keys.read(kParams + least, from));
  if (keys.isAuto(kParams + most))
    rate = 0;
  ZC_RETURN_IF_ERROR(keys.read(kParams + most, rate));
  if (keys.find(kParams + most) && !(rate > 0))
    return keys.wrong(kParams + most, "above 0");
  if (rate > 0)
    keys.give("lr", text(rate), kParams + most);
  if (from == 0)
    return Status::success();
  double full = given != 0 ? given : rate;
  if (full == 0) {
    const std::string own = "/optimizer/params/lr";
    full = keys.isAuto(own) ? std::strtod(kAutoRate, nullptr) : 1e-3; // of every optimizer's constructor
    ZC_RETURN_IF_ERROR(keys.read(own, full));
  }
  if (!(from > 0 && from <= full))
    return keys.wrong(kParams + least, "between 0 and the rate " + text(full));
  schedule += separator + ("from=" + text(from / full));
  return Status::success();
}

Status warmupLr(DeepSpeedKeys &keys, double given, std::string &schedule) {
  ZC_RETURN_IF_ERROR(readWarmup(keys, schedule));
  return readRates(keys, "warmup_min_lr", "warmup_max_lr", 0, given, schedule, ",");
}

Status warmupDecayLr(DeepSpeedKeys &keys, double given, std::string &schedule) {
  ZC_RETURN_IF_ERROR(readWarmup(keys, schedule));
  ZC_RETURN_IF_ERROR(readTotal(keys, schedule));
  return readRates(keys, "warmup_min_lr", "warmup_max_lr", 1e-3, given, schedule, ",");
}

Status warmupCosineLr(DeepSpeedKeys &keys, double, std::string &schedule) {
  double from = 0, end = 0.0001;
  ZC_RETURN_IF_ERROR(readWarmup(keys, schedule));
  ZC_RETURN_IF_ERROR(readTotal(keys, schedule));
  ZC_RETURN_IF_ERROR(keys.read(kParams + "warmup_min_ratio", from));
  ZC_RETURN_IF_ERROR(keys.read(kParams + "cos_min_ratio", end));
  schedule += ",from=" + text(from) + ",end=" + text(end);
  return Status::success();
}

Status oneCycle(DeepSpeedKeys &keys, double given, std::string &schedule) {
  const Json *type = keys.find("/optimizer/type");
  // It moves Adam's first beta as well, unless told otherwise; optimizers without betas are left alone.
  bool cyclesMomentum = !type || *type != "SGD";
  ZC_RETURN_IF_ERROR(keys.read(kParams + "cycle_momentum", cyclesMomentum));
  for (const char *key : {"cycle_min_mom", "cycle_max_mom", "decay_mom_rate"})
    keys.find(kParams + key);
  if (cyclesMomentum)
    return keys.unsupported("scheduler \"OneCycle\" with \"cycle_momentum\" changes the optimizer's betas over the run",
                            "\"cycle_momentum\": false cycles the learning rate alone");
  for (const char *key : {"cycle_first_stair_count", "cycle_second_stair_count"})
    ZC_RETURN_IF_ERROR(keys.mustBe(kParams + key, 0, "is not in this version: the rate moves at every step"));
  int64_t up = 2000, every = 0;
  double rate = 0;
  ZC_RETURN_IF_ERROR(keys.read(kParams + "cycle_first_step_size", up, 1));
  int64_t down = up;
  ZC_RETURN_IF_ERROR(keys.read(kParams + "cycle_second_step_size", down, 1));
  ZC_RETURN_IF_ERROR(keys.read(kParams + "decay_step_size", every));
  ZC_RETURN_IF_ERROR(keys.read(kParams + "decay_lr_rate", rate));
  if (!keys.find(kParams + "cycle_max_lr"))
    return keys.wrong(kParams + "cycle_max_lr", "given");
  schedule += ":up=" + std::to_string(up) + ",down=" + std::to_string(down) + ",every=" + std::to_string(every) +
              ",rate=" + text(rate);
  return readRates(keys, "cycle_min_lr", "cycle_max_lr", 0, given, schedule, ",");
}

} // namespace

Status translateScheduler(DeepSpeedKeys &keys, const std::string &rate) {
  const Json *type = keys.find("/scheduler/type");
  if (!type)
    return Status::success();
  struct Known {
    const char *type, *name;
    Status (*read)(DeepSpeedKeys &, double given, std::string &);
  };
  for (const Known &known : {Known{"WarmupLR", "deepspeed-warmup", warmupLr},
                             Known{"WarmupDecayLR", "deepspeed-warmup-decay", warmupDecayLr},
                             Known{"WarmupCosineLR", "deepspeed-warmup-cosine", warmupCosineLr},
                             Known{"OneCycle", "deepspeed-one-cycle", oneCycle}})
    if (*type == known.type) {
      std::string schedule = known.name;
      ZC_RETURN_IF_ERROR(known.read(keys, std::strtod(rate.c_str(), nullptr), schedule));
      keys.give("lr-schedule", schedule, "/scheduler");
      return Status::success();
    }
  return keys.unsupported("scheduler " + escapeName(type->dump()) + " is not in this version",
                          "WarmupLR, WarmupDecayLR, WarmupCosineLR or OneCycle; or --lr-schedule");
}

} // namespace zc
