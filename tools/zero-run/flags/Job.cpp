//===- Job.cpp - what training and evaluation are told alike ---------------------------===//
#include "runtime/io/FileKind.h"
#include "tools/zero-run/flags/Command.h"

#include <algorithm>

namespace zc::run {

static void addData(CLI::App &app, train::RunOptions &run) {
  const char *group = "Data";
  app.add_option("--data", run.data.data, "FILE.safetensors or a folder of INPUT.npy; arrays [samples, ...]")
      ->group(group);
  app.add_option("--tokens", run.data.tokens,
                 "token files, read as one stream: llm.c .bin, .npy, raw with --token-type, any with --byte-level; "
                 "FILE:WEIGHT...: each by itself, WEIGHT times an epoch")
      ->group(group);
  app.add_option("--token-type", run.data.tokenType, "of --tokens files without a header, such as nanoGPT's (uint16)")
      ->check(oneOf({"uint16", "uint32", "int32", "int64"}))
      ->group(group);
  app.add_flag("--byte-level", run.data.byteLevel, "each byte of the files is a token")->group(group);
  app.add_flag("--shift-labels", run.data.shiftLabels, "labels are the following tokens; for graphs that do not shift")
      ->group(group);
  app.add_option("--seed", run.seed, "of the order and of dropout (default: the plan's)")
      ->check(within<uint64_t>(0, UINT64_MAX))
      ->group(group);
  app.add_option("--weights", run.weights, "safetensors, a checkpoint or a run's folder, instead of the model's")
      ->group(group);
}

static void addOutput(CLI::App &app, Flags &flags) {
  const char *group = "Output";
  app.add_option("--log-every", flags.logEvery, "steps between lines")->check(positive())->group(group);
  app.add_flag("--quiet", flags.quiet, "no progress")->group(group);
  app.add_option_function<std::string>(
         "--log-format", [&flags](const std::string &format) { flags.jsonLog = format == "json"; },
         "text, or json: one object per step on stdout")
      ->check(oneOf({"text", "json"}))
      ->group(group);
}

static void addMachine(CLI::App &app, train::RunOptions &run) {
  const char *group = "Machine";
  addNamed<DeviceKind>(
      app, "--device", run.device,
      "cpu, sync (all queues inline), fake (a GPU's streams, of threads in random order: for tests), cuda, or "
      "cuda-sync (step by step) (default: what the plan is for)")
      ->group(group);
  app.add_option_function<std::string>(
         "--graphs", [&run](const std::string &graphs) { run.graphs = graphs == "on"; },
         "on: what streams do again and again is captured and launched as one; off: kernel by kernel")
      ->check(oneOf({"on", "off"}))
      ->group(group);
  app.add_option("--threads", run.threads, "threads per rank (default: cores, or a control group's quota, / ranks)")
      ->check(positive(4096))
      ->group(group);
  app.add_option("--products", run.products,
                 "FILE of bench-machine, or none: how matrix products of its shapes are computed (default: this "
                 "machine's, in the cache folder)")
      ->group(group);
  app.add_flag("--reserve", run.reserve, "take all memory of the arenas before the first step, or refuse")
      ->group(group);
  app.add_option("--nvme-dir", run.nvme.folder, "where the NVMe tier's file goes")->group(group);
  app.add_flag("!--no-spill-checksum", run.nvme.checksums, "trust the disk: no checksum of what the NVMe tier reads")
      ->group(group);
}

/// Of ranks that are not threads of this process.
static void addProcesses(CLI::App &app, Flags &flags) {
  const char *group = "Ranks as processes";
  app.add_option("--hosts", flags.hosts,
                 "FILE or a:2,b:2: start the ranks there by mpirun; -n is for hosts without a number")
      ->group(group);
  addNamed<Connection>(app, "--comm", flags.comm,
                       "inproc (threads), mpi (one process per rank), auto (mpi under mpirun or srun)")
      ->group(group);
  app.add_option("--watchdog", flags.run.watchdog,
                 "seconds after which a collective, a file, a kernel or a GPU's streams count as stuck (300; 0: never)")
      ->check(within(0.0, 1e9))
      ->group(group);
  app.add_option("--grace", flags.grace,
                 "seconds within which a run that is told to stop has saved, or ends all the same")
      ->check(within(1, 1000000))
      ->group(group);
  app.add_flag("--no-core", flags.noCore, "a crash leaves no core file: weights are secrets")->group(group);
  app.add_option("--init-timeout", flags.initTimeout, "seconds for all ranks to meet (60)")
      ->check(within(0.1, 1e9))
      ->group(group);
}

void addJob(CLI::App &app, Flags &flags) {
  app.add_option("-n,--nproc-per-node", flags.run.worldSize, "ranks, as threads of this process (default: as planned)")
      ->check(positive(65536));
  addData(app, flags.run);
  addOutput(app, flags);
  addMachine(app, flags.run);
  addProcesses(app, flags);
}

/// `--tokens` and `--eval-tokens` take all names that follow them: a plan among them is the plan.
static void takePlanFromTokens(train::RunOptions &run) {
  for (std::vector<std::string> *files : {&run.data.tokens, &run.evalTokens}) {
    auto plan = std::find_if(files->rbegin(), files->rend(),
                             [](const std::string &file) { return io::kindOf(file) == FileKind::plan; });
    if (!run.plan.empty() || plan == files->rend())
      continue;
    run.plan = *plan;
    files->erase(std::next(plan).base());
  }
}

static Error noPlan(const train::RunOptions &run, const char *command) {
  Error error = usageError("no plan is given", command);
  if (!run.data.tokens.empty()) {
    error.note = "--tokens took \"" + run.data.tokens.back() + "\"";
    error.help = "the plan comes first: zero-run PLAN --tokens FILE...";
  }
  return error;
}

Status completeJob(Flags &flags, const char *command) {
  train::RunOptions &run = flags.run;
  takePlanFromTokens(run);
  if (run.plan.empty())
    return noPlan(run, command);
  const bool hasTokens = !run.data.tokens.empty() || !run.evalTokens.empty();
  if (run.data.byteLevel && !hasTokens)
    return usageError("\"--byte-level\" is for --tokens", "--byte-level");
  if (run.data.shiftLabels && !hasTokens)
    return usageError("\"--shift-labels\" is for --tokens", "--shift-labels");
  if (run.data.tokenType.empty())
    return Status::success();
  if (run.data.byteLevel)
    return usageError("\"--byte-level\" and \"--token-type\" exclude each other", "--token-type");
  return hasTokens ? Status::success() : usageError("\"--token-type\" is for --tokens", "--token-type");
}

} // namespace zc::run
