//===- Machine.cpp - flags of commands about this machine ------------------------------===//
#include "base/Size.h"
#include "runtime/plan/Tiers.h"
#include "tools/zero-run/flags/Command.h"

namespace zc::run {

std::unique_ptr<Command> doctorCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<Command>(*root.add_subcommand("doctor", "what this machine has"), Flags::Command::doctor,
                                   flags, "zero-run doctor");
}

std::unique_ptr<Command> slurmCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<Command>(*root.add_subcommand("slurm-template", "a batch script for Slurm"),
                                   Flags::Command::slurmTemplate, flags, "zero-run slurm-template > job.sh");
}

namespace {

/// Of --size; errors: usage.
Status readSize(const std::string &text, uint64_t &bytes) {
  const std::optional<uint64_t> size = parseSize(text);
  if (!size || *size < kBlockBytes)
    return usageError("\"" + text + "\" is no size of at least 4096 bytes", "--size");
  bytes = *size;
  return Status::success();
}

class BenchIoCommand : public Command {
public:
  BenchIoCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("bench-io", "measures this machine with a disk, for zero-compile --machine"),
                Flags::Command::measureRates, flags, "zero-run bench-io /fast/disk -o machine.json") {
    app.add_option("folder", flags.benchFolder, "where the NVMe tier would go")->required();
    app.add_option("--size", size, "bytes written and read there (512MiB)");
    app.add_option("-o,--output", flags.machine, "file to write (default: stdout, as -)");
    app.add_option("--threads", flags.run.threads, "threads of a rank's kernels (1)")->check(positive(4096));
  }
  Status complete() override { return readSize(size, flags.benchBytes); }

private:
  std::string size = "512MiB";
};

class BenchMachineCommand : public Command {
public:
  BenchMachineCommand(CLI::App &root, Flags &flags)
      : Command(*root.add_subcommand("bench-machine", "measures this machine: its rates, for zero-compile --machine; "
                                                      "of plans, who is fastest at their matrix products, for "
                                                      "--products"),
                Flags::Command::measureRates, flags,
                "zero-run bench-machine -o machine.json\n  zero-run bench-machine gpt2.plan") {
    app.add_option("plans", flags.benchPlans, "plan files, of which products are measured; none: the machine's rates");
    app.add_option("--shape", flags.benchProducts,
                   "a product by name: TYPE:FACTORS:MxNxK[:BATCH], as in "
                   "bf16:nt:1024x768x3072");
    app.add_option("-o,--output", output,
                   "file to write: of rates a machine file (default: stdout, as -); of products "
                   "the table, to which they are added (default: the cache folder's)");
    app.add_option("--nvme-dir", flags.benchFolder, "of rates: where the NVMe tier would go, to measure that too");
    app.add_option("--size", size, "bytes written and read there (512MiB)");
    app.add_option("--threads", flags.run.threads, "per rank (default: 1, of plans as a run of them here)")
        ->check(positive(4096));
    app.add_option("--rounds", flags.benchRounds, "of products: in which each way runs (5)")->check(within(1, 1000));
  }
  Status complete() override {
    const bool ofProducts = !flags.benchPlans.empty() || !flags.benchProducts.empty();
    kind = ofProducts ? Flags::Command::measureProducts : Flags::Command::measureRates;
    (ofProducts ? flags.products : flags.machine) = output;
    if (ofProducts)
      for (const char *flag : {"--nvme-dir", "--size"})
        if (app.count(flag))
          return usageError("\"" + std::string(flag) + "\" is of the machine's rates, measured without plans", flag);
    if (!ofProducts && app.count("--rounds"))
      return usageError("\"--rounds\" is of products: give plans, or shapes by --shape", "--rounds");
    if (app.count("--size") && flags.benchFolder.empty())
      return usageError("\"--size\" is of --nvme-dir", "--size");
    return readSize(size, flags.benchBytes);
  }

private:
  std::string output, size = "512MiB";
};

} // namespace

std::unique_ptr<Command> benchIoCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<BenchIoCommand>(root, flags);
}
std::unique_ptr<Command> benchMachineCommand(CLI::App &root, Flags &flags) {
  return std::make_unique<BenchMachineCommand>(root, flags);
}

} // namespace zc::run
