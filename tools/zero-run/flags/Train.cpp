//===- Train.cpp - flags of training, and of plans that only compute forward ------------===//
#include "tools/zero-run/flags/Command.h"

#include <cstdio>

namespace zc::run {

namespace {

/// "FROM:TO", steps from 1.
Status readSteps(const std::string &text, const char *flag, train::StepRange &steps) {
  long long from = 0, to = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%lld:%lld%n", &from, &to, &end) != 2 || size_t(end) != text.size() || from < 1 ||
      to < from)
    return usageError("\"" + text + "\" is not FROM:TO with 1 <= FROM <= TO", flag);
  steps = {from, to};
  return Status::success();
}

class TrainCommand : public Command {
public:
  TrainCommand(CLI::App &root, Flags &flags) : Command(root, Flags::Command::train, flags, "") {
    app.add_option("plan", flags.run.plan, "plan file of zero-compile");
    addJob(app, flags);
    addTraining();
    addOutput();
    addValidation();
  }

  Status complete() override {
    ZC_RETURN_IF_ERROR(completeJob(flags, ""));
    ZC_RETURN_IF_ERROR(checkValidation());
    ZC_RETURN_IF_ERROR(checkBeginning());
    if (!trace.empty())
      ZC_RETURN_IF_ERROR(readSteps(trace, "--trace", flags.run.trace));
    return profile.empty() ? Status::success() : readSteps(profile, "--profile", flags.run.profile);
  }

private:
  void addTraining() {
    train::RunOptions &run = flags.run;
    app.add_flag("--shuffle", run.data.shuffle, "another order in each epoch")->group("Data");
    app.add_flag("--data-changed", run.dataChanged, "go on though data or their order are others than the checkpoint's")
        ->group("Data");
    const char *group = "Training";
    app.add_option("--steps", run.steps, "optimizer steps")->check(positive())->group(group);
    app.add_option("--epochs", run.epochs,
                   "passes over the data (1, without --steps); with --steps, what is reached first")
        ->check(within(1e-9, 1e9))
        ->group(group);
    app.add_option("--lr", run.lr, "learning rate (default: the plan's)")->check(within(0.0, 1e9))->group(group);
    app.add_option("--lr-schedule", run.schedule,
                   "NAME[:KEY=VALUE,...]: constant, linear, cosine, wsd, cosine-restarts, polynomial, inverse-sqrt, "
                   "deepspeed-* with warmup=, rise=, from=, end=, steps=, ... (docs/cli.md; default: the plan's)")
        ->group(group);
    app.add_option("--warmup", run.warmup, "steps of warm-up, in place of the schedule's")
        ->check(within<int64_t>(0, int64_t(1) << 40))
        ->group(group);
  }

  void addOutput() {
    train::RunOptions &run = flags.run;
    const char *group = "Output";
    app.add_option("--out", run.out, "folder (default: runs/<model>)")->group(group);
    app.add_option("--save-every", run.saveEvery, "steps between checkpoints OUT/step-K")
        ->check(positive())
        ->group(group);
    app.add_flag("!--no-final", run.savesFinal, "no checkpoint OUT/final at the end: for runs that only measure")
        ->group(group);
    app.add_option_function<std::string>(
           "--ckpt-on-error", [&run](const std::string &what) { run.outlivesFailedSave = what == "warn"; },
           "when a checkpoint of --save-every cannot be written: stop (default), or warn and go on")
        ->check(oneOf({"stop", "warn"}))
        ->group(group);
    app.add_option("--keep", run.keep, "newest checkpoints kept (default: all)")->check(positive())->group(group);
    app.add_option("--resume", run.resume,
                   "auto (newest whole checkpoint of OUT), a checkpoint, or a run's folder; of this or another plan")
        ->group(group);
    app.add_flag("--overwrite", run.overwrite, "remove an earlier run from OUT")->group(group);
    app.add_option("--trace", trace, "FROM:TO, Chrome trace of these steps into OUT/trace.json")->group(group);
    app.add_option("--profile", profile,
                   "FROM:TO, where the time of these steps goes: a table, OUT/profile.html with the slowest steps")
        ->group(group);
  }

  /// Evaluating while training.
  void addValidation() {
    train::RunOptions &run = flags.run;
    const char *group = "Evaluation on the way (plans of zero-compile --with-eval)";
    app.add_option("--eval-data", run.evalData, "as --data, to evaluate on")->group(group);
    app.add_option("--eval-tokens", run.evalTokens, "as --tokens, to evaluate on; read as those are")->group(group);
    app.add_option("--eval-every", run.evalEvery, "steps between evaluations (default: after the last one)")
        ->check(positive())
        ->group(group);
    app.add_option("--eval-steps", run.evalSteps, "of one batch per rank (default: all samples, once)")
        ->check(positive())
        ->group(group);
    app.add_flag("--keep-best", run.keepBest, "a checkpoint OUT/best of the lowest loss")->group(group);
    app.add_option("--early-stop", run.earlyStop, "evaluations without a lower loss that end the run")
        ->check(positive())
        ->group(group);
  }

  /// What is said of evaluations has data to evaluate on, and one kind of them.
  Status checkValidation() const {
    const train::RunOptions &run = flags.run;
    for (const char *flag : {"--eval-every", "--eval-steps", "--keep-best", "--early-stop"})
      if (app.count(flag) && !run.evaluates())
        return usageError("\"" + std::string(flag) + "\" needs --eval-data or --eval-tokens", flag);
    if (!run.evalData.empty() && !run.evalTokens.empty())
      return usageError("\"--eval-data\" and \"--eval-tokens\" exclude each other", "--eval-data");
    return Status::success();
  }

  /// Where the run begins is said once. `--resume auto` goes on where there is something, so it may be told
  /// what to begin with where there is nothing.
  Status checkBeginning() const {
    const train::RunOptions &run = flags.run;
    if (run.resume.empty() || run.resume == "auto")
      return Status::success();
    if (!run.weights.empty())
      return usageError("\"--weights\" is what a run begins with: this one goes on from --resume", "--weights");
    return Status::success();
  }

  std::string trace, profile;
};

class EvalCommand : public Command {
public:
  EvalCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("eval", "mean loss and outputs of a --forward-only plan over a data set"),
                Flags::Command::eval, flags,
                "zero-run eval gpt-eval.plan -n 4 --tokens held-out.txt --byte-level --weights runs/gpt/final") {
    train::RunOptions &run = flags.run;
    app.add_option("plan", run.plan, "plan file of zero-compile --forward-only");
    addJob(app, flags);
    app.add_option("--steps", run.steps, "steps of one batch per rank (default: all samples, once)")
        ->check(positive())
        ->group("Data");
    app.add_option("--outputs", flags.outputs, "safetensors file for what the plan computes, in data order")
        ->group("Output");
    app.add_option("--out", run.out, "folder for eval.json, the last line's object (default: none)")->group("Output");
  }
  Status complete() override { return completeJob(flags, "eval"); }
};

} // namespace

std::unique_ptr<Command> trainCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<TrainCommand>(root, flags);
}
std::unique_ptr<Command> evalCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<EvalCommand>(root, flags);
}

} // namespace zc::run
