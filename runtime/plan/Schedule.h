//===- Schedule.h - the learning rate over a run -----------------------------------===//
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace zc {

/// What a schedule is told beside its name, in steps and shares of the full rate.
struct ScheduleKeys {
  enum class Rise { linear, linearFromZero, log };
  enum class Fall { linear, cosine, sqrt };

  std::optional<int64_t> warmup, steps, decay; ///< absent: none, the run's, a fifth of what follows the warm-up
  Rise rise = Rise::linear;
  Fall fall = Fall::linear;
  double from = 0; ///< where the warm-up begins
  double end = 0;  ///< what the rate falls to
  double cycles = 1, power = 1;
  int64_t up = 2000, down = 2000, every = 0; ///< deepspeed-one-cycle
  double rate = 0;                           ///< ... after its cycle, by `every` steps
};

/// Learning rate as a function of the step, so that a resumed run needs nothing but the step. Said as
/// "NAME[:KEY=VALUE,...]":
///
/// - All rise over `warmup` steps from the share `from` (0) of the rate, reaching it with the last of them
///   (rise=linear), with the one after it (rise=linear-from-zero, as transformers' schedules do), or by logarithm
///   (rise=log). Then `constant` stays; the others fall to the share `end` (0) when `steps` (the run's) are over:
///   `linear`; `cosine`, half a wave (Loshchilov and Hutter 2017); `cosine-restarts`, `cycles` such waves, each from
///   the full rate; `polynomial`, linear to the `power`; `inverse-sqrt`, by 1/sqrt(step) (Vaswani et al. 2017), which
///   knows no end; `wsd`, which stays, and falls over the last `decay` steps (a fifth; MiniCPM 2024) by fall=linear,
///   cosine or sqrt (1 - sqrt; Haegele et al. 2024).
/// - `deepspeed-warmup`, `deepspeed-warmup-decay`, `deepspeed-warmup-cosine` and `deepspeed-one-cycle` are WarmupLR,
///   WarmupDecayLR, WarmupCosineLR and OneCycle of DeepSpeed 0.19 (runtime/lr_schedules.py), step by step: they take
///   their own first step at the second of the run.
class Schedule {
public:
  /// `warmup`, where given, takes the place of the text's. Errors: usage (unknown name or key, a value out of its
  /// range, a negative rate), located at --lr-schedule.
  static Result<Schedule> create(const std::string &text, double rate, std::optional<int64_t> warmup, int64_t steps);
  /// Empty, or what is wrong with the text.
  static std::string problem(const std::string &text);
  /// `step` counts from 1.
  double at(int64_t step) const { return rate * share(keys, step); }
  int64_t warmup() const { return *keys.warmup; }

private:
  using Share = double (*)(const ScheduleKeys &keys, int64_t step);
  Share share = nullptr;
  ScheduleKeys keys; ///< warmup and steps are there
  double rate = 0;
};

} // namespace zc
