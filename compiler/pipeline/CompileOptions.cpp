//===- CompileOptions.cpp - options by name, and what goes with what --------------------===//

#include "compiler/pipeline/CompileOptions.h"
#include "compiler/schedule/MachineModel.h"

using namespace zc;

/// What only a plan that trains can be told.
static constexpr const char *kTrainingOnly[] = {"optimizer",
                                                "lr",
                                                "lr-schedule",
                                                "betas",
                                                "eps",
                                                "weight-decay",
                                                "momentum",
                                                "no-decay",
                                                "param-groups",
                                                "clip-grad-norm",
                                                "grad-accumulation",
                                                "micro-order",
                                                "checkpoint-activations",
                                                "partition-activations",
                                                "offload-optimizer",
                                                "offload-activation",
                                                "offload-ratio",
                                                "delay-update",
                                                "delay-after",
                                                "quantize-gradients",
                                                "quantize-error-feedback",
                                                "hierarchical",
                                                "trainable",
                                                "frozen",
                                                "ort-optimizer",
                                                "batch-norm-variance",
                                                "with-eval"};

static constexpr const char *kLossScale[] = {"loss-scale",        "initial-loss-scale",    "min-loss-scale",
                                             "loss-scale-window", "loss-scale-hysteresis", "consecutive-hysteresis"};

OptionList zc::listOptions(CompileOptions &options) {
  OptionList list;
  listOptions(options.import, list);
  list.add("seed", options.seed, "of dropout and data order");
  listOptions(options.strategy.grad, list);
  list.chosen(false);
  list.group("Training (torch's definitions and defaults)");
  list.add("with-eval", options.withEval,
           "the plan evaluates as well (zero-run --eval-data, --eval-tokens): the model's loss forward only, in the "
           "memory that training has");
  listOptions(options.strategy.shard, list);
  list.chosen(false);
  listOptions(options.strategy.schedule, list);
  return list;
}

/// As a shell reads it.
static std::string quoted(const std::string &word) {
  const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string zc::commandLine(CompileOptions options) {
  std::string command = "zero-compile " + quoted(options.model);
  for (const Option &option : listOptions(options).options) {
    auto given = options.given.find(option.name);
    if (given == options.given.end())
      continue;
    for (const std::string &text : given->second)
      command += flagText(option, quoted(text));
  }
  return command + (options.isGiven("auto") ? " --auto" : "");
}

/// A forward-only plan is told nothing about training, and evaluates unless it is told otherwise.
static Status completeForwardOnly(CompileOptions &c) {
  c.import.forwardOnly = c.strategy.grad.forwardOnly;
  if (!c.import.forwardOnly)
    return c.import.outputs.empty()
               ? Status::success()
               : optionError("a plan that trains hands over no outputs; add --forward-only", "outputs");
  for (const char *name : kTrainingOnly)
    if (c.isGiven(name))
      return optionError("a plan that is --forward-only trains nothing", name);
  for (const char *name : kLossScale)
    if (c.isGiven(name))
      return optionError("a plan that is --forward-only trains nothing", name);
  if (!c.isGiven("dropout"))
    c.import.dropout = importer::DropoutPolicy::off;
  if (!c.isGiven("batch-norm"))
    c.import.batchNorm = importer::BatchNormPolicy::eval;
  return Status::success();
}

/// Options of the loss scale are of fp16, and a fixed one has no rule.
static Status checkLossScale(const CompileOptions &c) {
  const GradOptions &grad = c.strategy.grad;
  for (const char *name : kLossScale) {
    if (!c.isGiven(name))
      continue;
    if (grad.precision != Precision::fp16)
      return optionError("only --precision fp16 scales the loss", name);
    if (grad.lossScale > 0 && name != kLossScale[0])
      return optionError("a fixed --loss-scale does not change", name);
  }
  // What is kept is of another scale than what it is added to, and stays infinite after an overflow.
  if (grad.precision == Precision::fp16 && c.strategy.shard.errorFeedback)
    return makeError(Code::unsupported, 122,
                     "feedback to gradients that a loss scale multiplies is not in this version",
                     "--quantize-error-feedback", "leave it out, or use --precision bf16");
  return Status::success();
}

/// Both are the user's to choose: what is cut is what recomputation keeps, over ranks that share samples.
static Status checkPartitionedActivations(const CompileOptions &c) {
  if (!c.strategy.shard.partitionActivations)
    return Status::success();
  std::string missing;
  if (c.strategy.shard.model < 2)
    missing = "ranks that share samples, --tensor-parallel T";
  if (c.strategy.grad.checkpoint == CheckpointPolicy::none)
    missing += (missing.empty() ? "" : ", and ") + std::string("recomputation, --checkpoint-activations block");
  return missing.empty() ? Status::success() : optionError("it needs " + missing, "partition-activations");
}

/// A machine's name says what the plan is for, and what it is for which rates to take where nothing is measured.
static void completeTarget(CompileOptions &c) {
  ScheduleOptions &schedule = c.strategy.schedule;
  const MachinePreset *named = findMachine(schedule.machine);
  if (named && !c.isGiven("target"))
    schedule.target = named->target;
  if (schedule.machine.empty() && schedule.target == Target::cuda)
    schedule.machine = "h100";
}

Status zc::complete(CompileOptions &c) {
  if (c.model.empty())
    return optionError("no model is given", "");
  ZC_RETURN_IF_ERROR(completeForwardOnly(c));
  ZC_RETURN_IF_ERROR(checkLossScale(c));
  ZC_RETURN_IF_ERROR(checkPartitionedActivations(c));
  completeTarget(c);
  if (c.withEval && c.strategy.shard.delayUpdate) // what it would evaluate is older than what a checkpoint then holds
    return makeError(Code::unsupported, 129, "evaluation beside a delayed update is not in this version", "--with-eval",
                     "leave one of \"--with-eval\" and \"--delay-update\" out; a --forward-only plan evaluates "
                     "checkpoints");
  c.strategy.grad.modelRanks = c.strategy.shard.model;
  c.strategy.grad.target = c.strategy.schedule.target;
  c.strategy.grad.largestWhole = c.strategy.shard.tileLinear != 0 ? c.strategy.shard.tileBytes() : 0;
  ZC_RETURN_IF_ERROR(validate(c.strategy.grad));
  ShardOptions shard = c.strategy.shard;
  if (!shard.delayUpdate && c.isGiven("delay-after"))
    return optionError("it says when --delay-update begins", "delay-after");
  shard.delayUpdate &= !c.offloadIsOpen;
  return validate(shard);
}
