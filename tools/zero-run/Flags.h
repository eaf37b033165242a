//===- Flags.h - the command line of zero-run -----------------------------------------------------===//
#pragma once

#include "runtime/train/Options.h"

#include <string>
#include <vector>

namespace zc::run {

/// What connects the ranks: threads of this process, MPI, or what the environment asks for.
enum class Connection { automatic, inproc, mpi };
constexpr std::array<const char *, 3> namesOf(Connection) { return {"auto", "inproc", "mpi"}; }

/// Everything the command line says.
struct Flags {
  enum class Command {
    train,
    eval,
    inspect,
    exportWeights,
    doctor,
    measureRates,
    measureProducts,
    slurmTemplate,
    verifyCheckpoint,
    text
  };
  Command command = Command::train;
  train::RunOptions run;
  // What people see.
  int64_t logEvery = 1;
  bool quiet = false;
  bool jsonLog = false;
  // How the ranks are started and talk.
  Connection comm = Connection::automatic;
  double initTimeout = 60;            ///< seconds
  unsigned grace = 0;                 ///< seconds to save and end in, once told to stop; 0: as long as it takes
  bool noCore = false;                ///< a crash leaves no image of the memory
  std::string hosts;                  ///< empty: nothing is launched
  std::vector<std::string> forwarded; ///< the command line without --hosts and -n, for the ranks that are launched
  // eval
  std::string outputs;
  // inspect
  bool wholeText = false, kernels = false;
  // export, checkpoint verify
  std::string checkpoint, onnx, safetensors, model;
  // bench-io, bench-machine
  std::string benchFolder; ///< of the NVMe tier; empty: it is not measured
  std::string machine;     ///< the file to write; empty or "-": stdout
  uint64_t benchBytes = 0;
  std::vector<std::string> benchPlans, benchProducts;
  std::string products; ///< the file to write
  int benchRounds = 5;
  // text: help or version, to be printed as it is
  std::string text;
};

/// Errors: usage, with the nearest known flag as help.
Result<Flags> parseFlags(int argc, char **argv);

} // namespace zc::run
