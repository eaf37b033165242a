#include "runtime/exec/Measure.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Outputs.h"
#include "runtime/mpi/Mpi.h"
#include "runtime/plan/Tiers.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Environment.h"
#include "tools/zero-run/Progress.h"

#include <cstdio>

namespace zc::run {

namespace {

void printTable(const MachineModel &figures) {
  const std::pair<const char *, double> rows[] = {
      {"nvme read", figures.nvmeReadBandwidth}, {"nvme write", figures.nvmeWriteBandwidth},
      {"host to device", figures.h2dBandwidth}, {"device to host", figures.d2hBandwidth},
      {"memory", figures.memoryBandwidth},      {"between ranks", figures.commBandwidth}};
  char line[80];
  for (const auto &[name, rate] : rows) {
    if (rate == 0) // of the disk, without its folder
      continue;
    std::snprintf(line, sizeof line, "%-16s%8.2f GB/s\n", name, rate / 1e9);
    print(2, line);
  }
  if (figures.nodeBandwidth > 0)
    std::snprintf(line, sizeof line, "%-16s%8.3f GB/s\n", "between nodes", figures.nodeBandwidth / 1e9);
  else
    std::snprintf(line, sizeof line, "%-16s not measured: needs mpirun on two machines\n", "between nodes");
  print(2, line);
  std::snprintf(line, sizeof line, "%-16s%8.1f GF/s\n%-16s%8.2f us\n", "matrix product", figures.flopsPerSecond / 1e9,
                "step to step", figures.stepOverhead * 1e6);
  print(2, line);
}

Status writeRates(const std::string &path, const MachineModel &figures) {
  const std::string json = toJson(figures) + "\n";
  return path.empty() || path == "-" ? io::writeToStdout(json) : io::writeFileAtomically(path, json);
}

} // namespace

Status measureRates(const Flags &flags) {
  MeasureOptions options;
  options.folder = flags.benchFolder;
  options.nvmeBytes = toBlocks(flags.benchBytes);
  options.threads = flags.run.threads > 0 ? flags.run.threads : 1;
  auto launched = launchedRank(/*asThreads=*/true); // of half a pair it knows nothing
  if (!launched)
    return launched.error();
  const bool isFile = !flags.machine.empty() && flags.machine != "-";
  if (isFile && (!*launched || (*launched)->rank == 0)) {
    ZC_RETURN_IF_ERROR(checkOutputs({}, {written("-o", flags.machine, FileKind::unknown)}));
    ZC_RETURN_IF_ERROR(io::checkReplaceable(flags.machine));
  }
  std::unique_ptr<RankGroup> ranks;
  if (*launched && (*launched)->size > 1) {
    auto connected = connectMpi({nullptr, flags.initTimeout, failToMeet});
    if (!connected)
      return connected.error();
    ranks = std::move(*connected);
    options.ranks = ranks.get();
  }
  std::vector<std::string> notes;
  auto figures = measureMachine(options, notes);
  if (!figures)
    return figures.error();
  if (ranks && ranks->firstRank() != 0)
    return Status::success();
  for (const std::string &note : notes)
    print(2, note + "\n");
  printTable(*figures);
  return writeRates(flags.machine, *figures);
}

} // namespace zc::run
