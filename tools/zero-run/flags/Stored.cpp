//===- Stored.cpp - flags of commands about plans and checkpoints that are there ------===//
#include "tools/zero-run/flags/Command.h"

namespace zc::run {

namespace {

class InspectCommand : public Command {
public:
  InspectCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("inspect", "what a plan holds"), Flags::Command::inspect, flags,
                "zero-run inspect gpt2.plan --kernels") {
    app.add_option("plan", flags.run.plan, "plan file")->required();
    app.add_flag("--text", flags.wholeText, "the whole plan as text");
    app.add_flag("--kernels", flags.kernels,
                 "who computes the steps: our own kernels, a library, plain loops; --text: of each");
    app.add_option("--threads", flags.run.threads, "of --kernels: per rank (default: as a run here)")
        ->check(positive(4096));
    app.add_option("--products", flags.run.products, "of --kernels: as a run's");
    addNamed<DeviceKind>(app, "--device", flags.run.device, "of --kernels: as a run's (default: what the plan is for)");
  }
  Status complete() override {
    for (const char *flag : {"--threads", "--products", "--device"})
      if (app.count(flag) && !flags.kernels)
        return usageError("\"" + std::string(flag) + "\" is of --kernels", flag);
    return Status::success();
  }
};

class ExportCommand : public Command {
public:
  ExportCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("export", "a checkpoint's weights as a file"), Flags::Command::exportWeights,
                flags, "zero-run export runs/gpt2 --onnx trained.onnx") {
    app.add_option("checkpoint", flags.checkpoint, "OUT/step-K, OUT/final, or OUT for its newest")->required();
    app.add_option("--onnx", flags.onnx, "the model with the trained weights");
    app.add_option("--safetensors", flags.safetensors, "the weights alone");
    app.add_option("--model", flags.model, "where the original model is now");
  }
  Status complete() override {
    return flags.onnx.empty() == flags.safetensors.empty()
               ? usageError("give either --onnx OUT or --safetensors OUT", "export")
               : Status::success();
  }
};

class CheckpointCommand : public Command {
public:
  CheckpointCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("checkpoint", "verify DIR: whether a checkpoint, or all of a run, are whole"),
                Flags::Command::verifyCheckpoint, flags, "zero-run checkpoint verify runs/gpt2") {
    app.add_option("action", verb, "verify: reads every byte and compares all hashes")
        ->required()
        ->check(oneOf({"verify"}));
    app.add_option("folder", flags.checkpoint, "a checkpoint's or a run's folder")->required();
  }

private:
  std::string verb; ///< the only one so far
};

} // namespace

std::unique_ptr<Command> inspectCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<InspectCommand>(root, flags);
}
std::unique_ptr<Command> exportCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<ExportCommand>(root, flags);
}
std::unique_ptr<Command> checkpointCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<CheckpointCommand>(root, flags);
}

} // namespace zc::run
