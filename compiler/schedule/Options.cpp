//===- Options.cpp - what the schedule stage can be told --------------------------------===//

#include "compiler/schedule/Options.h"

using namespace zc;

void zc::listOptions(ScheduleOptions &o, OptionList &list) {
  list.group("Partitioning");
  list.add("prefetch", o.prefetch, ByteCount{0, {{"auto", -1}, {"none", 0}}},
           "bytes gathered ahead, auto or none (auto)");
  list.add("target", o.target, "what the plan is for (cpu, or what --machine names)");
  list.add(
      "machine", Option::Kind::value, "h200|h100|a100-80|v100-32|FILE[,RATE=VALUE...]",
      [&o](const std::string &text) -> Status {
        Result<MachineChoice> machine = parseMachine(text);
        if (machine)
          o.machine = std::move(*machine);
        return machine.status();
      },
      "rates: a machine's name, or a file that zero-run bench-machine wrote; RATE=VALUE: one of them, as in such a "
      "file");
  list.add("device-mem", o.budgets.device, ByteCount{1, {}}, "hard budget per rank, as 6GiB or 800MB");
  list.add("host-mem", o.budgets.host, ByteCount{1, {}}, "the same of the host tier");
  list.add("nvme-mem", o.budgets.nvme, ByteCount{1, {}}, "the same of the NVMe tier");
  list.add("overlap-tensor-parallel", o.overlapTensorParallel,
           "with --tensor-parallel, halves: where it pays, half of a product is summed over the ranks while the other "
           "is multiplied (off)");
  list.add(
      "keep-packed", o.keepPacked,
      "with --grad-accumulation, on: what products and convolutions rearrange of weights stays so for a step, in what "
      "--device-mem leaves (on)");
  list.chosen();
  list.add("overlap", o.overlap, "memory for work beside work");
}
