//===- Options.cpp - what the grad stage can be told ------------------------------------===//

#include "compiler/grad/Options.h"
#include "runtime/plan/Schedule.h"

#include <cstdio>

using namespace zc;

static Status readBetas(const std::string &text, UpdateSettings &update) {
  double first = 0, second = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%lf,%lf%n", &first, &second, &end) != 2 || static_cast<size_t>(end) != text.size() ||
      !(first >= 0 && first < 1) || !(second >= 0 && second < 1))
    return optionError(quotedText(text) + " is not B1,B2 with both in [0, 1)", "betas");
  update.beta1 = first;
  update.beta2 = second;
  return Status::success();
}

static Status readSchedule(const std::string &text, UpdateSettings &update) {
  if (std::string problem = Schedule::problem(text); !problem.empty())
    return optionError(quotedText(text) + " " + problem, "lr-schedule");
  update.lrSchedule = text;
  return Status::success();
}

static void listModel(GradOptions &o, OptionList &list) {
  list.group("Model");
  list.add("forward-only", o.forwardOnly,
           "evaluation or inference, for zero-run eval: no backward, no optimizer; dropout off and batch norm in "
           "evaluation mode unless --dropout, --batch-norm say otherwise");
  list.add(
      "fuse", o.fuse,
      "head: a linear layer and the cross-entropy of its logits are one operation, so that the logits of a few "
      "rows exist at a time; on: that, and chains of element-wise operations are one, with the same bits, and on GPUs "
      "products compute the gelu's gradient that follows them; off: each operation of the model is one of the plan");
  list.add("layout", o.layout,
           "auto: chains of convolutions, norms and pools compute on channels-last tensors where that saves "
           "rearranging; nchw: all in the model's order");
  list.add("views", o.views,
           "on: attention and fused programs read and write inside of the tensors that linear layers make and take, "
           "without copies that slice, transpose and concatenate, with the same bits; off: each tensor by itself");
}

static void listUpdate(GradOptions &o, OptionList &list) {
  constexpr Range<double> kNotNegative{0};
  UpdateSettings &update = o.update;
  list.group("Training (torch's definitions and defaults)", Option::Needs::training);
  list.add("optimizer", update.rule, "adamw, adam, sgd or momentum");
  list.add("lr", update.lr, kNotNegative, "learning rate (1e-3)");
  list.add(
      "lr-schedule", Option::Kind::value, "NAME[:KEY=VALUE,...]",
      [&update](const std::string &text) { return readSchedule(text, update); },
      "what zero-run does with the rate where it is not told otherwise: constant, linear:warmup=100, cosine:end=0.1, "
      "wsd, deepspeed-warmup-decay, ... (docs/cli.md)");
  list.add(
      "betas", Option::Kind::value, "B1,B2", [&update](const std::string &text) { return readBetas(text, update); },
      "B1,B2 (0.9,0.999)");
  list.add("eps", update.eps, kNotNegative, "(1e-8)");
  list.add("weight-decay", update.weightDecay, kNotNegative, "(adamw 0.01, else 0)");
  list.add("momentum", update.momentum, kNotNegative, "(0.9)");
  list.add("clip-grad-norm", update.maxNorm, {0x1p-1022}, "global L2 norm over all ranks");
  list.add("loss-mean", o.lossMean,
           "rank: over the labels that count of each rank's micro-step, then over these, as torch's DDP; global: over "
           "those of all ranks and micro-steps")
      .forAnyPlan();
  list.add("checkpoint-activations", o.checkpoint,
           "none; block: recompute inside blocks; selective: what costs little per byte, or, with --device-mem, as "
           "little as fits");
  list.needs(Option::Needs::nothing);
  list.add(
      "precision", o.precision,
      "fp32; bf16 or fp16: parameters and gradients in it, fp32 master weights and state; fp16 scales the loss, by "
      "DeepSpeed's rules and defaults");
  list.add(
      "matmul-precision", o.matmulPrecision,
      "of fp32's products (matrices, convolutions): ieee: in fp32; tf32: of factors that a GPU's tensor cores round "
      "to 10 bits, with sums in fp32. A CPU computes in fp32 either way");
}

static void listLossScale(GradOptions &o, OptionList &list) {
  constexpr Range<double> kScale{0x1p-126, 0x1p126};
  constexpr Range<int64_t> kCount{1, int64_t(1) << 62};
  list.needs(Option::Needs::lossScale);
  list.add("loss-scale", o.lossScale, {0, 0x1p126}, "fp16: a fixed scale, or 0: dynamic (0)");
  list.add("initial-loss-scale", o.initialLossScale, kScale, "of the first step (65536)");
  list.add("min-loss-scale", o.minLossScale, kScale, "an overflow at this scale ends the run (1)");
  list.add("loss-scale-window", o.lossScaleWindow, kCount, "steps without overflow until it doubles (1000)");
  list.add("loss-scale-hysteresis", o.lossScaleHysteresis, kCount, "overflows until it halves (2)");
  list.add("consecutive-hysteresis", o.consecutiveHysteresis,
           "each step without overflow restores the hysteresis, not only one that doubles the scale");
}

static void listPartitioning(GradOptions &o, OptionList &list) {
  list.group("Partitioning");
  list.add("sequence-parallel", o.sequenceParallel,
           "with --tensor-parallel: norms, residuals, dropouts between what is cut work on 1/T of the rows (batch or "
           "sequence); the bytes that are sent stay the same");
  list.chosen();
  list.add("save", o.save, Range<int64_t>{-1},
           "bytes at the peak that selective recomputation gives back; -1: all that cost little");
}

void zc::listOptions(GradOptions &o, OptionList &list) {
  listModel(o, list);
  listUpdate(o, list);
  listLossScale(o, list);
  listPartitioning(o, list);
}

void zc::listOptions(GradStage &o, OptionList &list) {
  listOptions(static_cast<GradOptions &>(o), list);
  list.add("model-ranks", o.modelRanks, Range<int64_t>{1, 65536}, "ranks that share the work on a sample");
  list.add("kernels-of", o.target, "what the step runs on: some fused operations have kernels on a CPU only");
  list.add("largest-whole", o.largestWhole, Range<int64_t>{0}, "bytes of the largest weight that is not tiled; 0: any");
}

Status zc::validate(const GradStage &o) {
  if (o.lossScale == 0 && o.initialLossScale < o.minLossScale)
    return optionError("it is below --min-loss-scale", "initial-loss-scale");
  if (o.sequenceParallel && o.modelRanks < 2)
    return optionError("it cuts rows over the ranks that share samples: --tensor-parallel T, of 2 or more, is missing",
                       "sequence-parallel");
  return Status::success();
}
