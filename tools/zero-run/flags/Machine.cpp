//===- Machine.cpp - flags of commands about this machine ------------------------------===//
#include "runtime/base/Size.h"
#include "runtime/plan/Tiers.h"
#include "tools/zero-run/flags/Command.h"

namespace zc::run {

std::unique_ptr<Command> doctorCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<Command>(*root.add_subcommand("doctor", "what this machine has"), Flags::Command::doctor,
                                   flags);
}

std::unique_ptr<Command> slurmCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<Command>(*root.add_subcommand("slurm-template", "a batch script for Slurm"),
                                   Flags::Command::slurmTemplate, flags);
}

namespace {

class BenchIoCommand : public Command {
public:
  BenchIoCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("bench-io", "measures this machine, for zero-compile --machine"),
                Flags::Command::benchIo, flags) {
    app.add_option("folder", flags.benchFolder, "where the NVMe tier would go")->required();
    app.add_option("--size", size, "bytes written and read there (512MiB)");
    app.add_option("-o", flags.machine, "file to write (default: stdout)");
    app.add_option("--threads", flags.run.threads, "threads of a rank's kernels (1)")->check(positive(4096));
  }
  Status complete() override {
    const std::optional<uint64_t> bytes = parseSize(size);
    if (!bytes || *bytes < kBlockBytes)
      return usageError("\"" + size + "\" is no size of at least 4096 bytes", "--size");
    flags.benchBytes = *bytes;
    return Status::success();
  }

private:
  std::string size = "512MiB";
};

class BenchMachineCommand : public Command {
public:
  BenchMachineCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("bench-machine", "measures who is fastest at the matrix products of plans here"),
                Flags::Command::benchMachine, flags) {
    app.add_option("plans", flags.benchPlans, "plan files");
    app.add_option("--shape", flags.benchProducts, "TYPE:FACTORS:MxNxK[:BATCH], as in bf16:nt:1024x768x3072");
    app.add_option("-o,--output", flags.products, "file to write, or to add to (default: the cache folder's)");
    app.add_option("--threads", flags.run.threads, "per rank (default: as a run of the plan here)")
        ->check(positive(4096));
    app.add_option("--rounds", flags.benchRounds, "in which each way runs (5)")->check(within(1, 1000));
  }
  Status complete() override {
    return flags.benchPlans.empty() && flags.benchProducts.empty()
               ? usageError("give plans, or shapes by --shape", "bench-machine")
               : Status::success();
  }
};

} // namespace

std::unique_ptr<Command> benchIoCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<BenchIoCommand>(root, flags);
}
std::unique_ptr<Command> benchMachineCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<BenchMachineCommand>(root, flags);
}

} // namespace zc::run
