//===- AddFlags.cpp - the flags of zero-compile -----------------------------------------===//

#include "tools/zero-compile/RawFlags.h"

#include <CLI/CLI.hpp>

namespace zc::tool {

namespace {

void addGeneral(CLI::App &app, Flags &flags, RawFlags &raw) {
  CompileOptions &c = flags.compile;
  app.add_option("model", c.model, "the exported training graph");
  app.add_option("-o,--output", c.output, "the plan");
  app.add_option("--config", raw.config, "a DeepSpeed configuration; a flag that is given as well wins");
  app.add_flag("--dry-run", flags.dryRun, "no plan; the report")->group("Inspect");
  app.add_flag("--json", flags.json, "the report as JSON")->group("Inspect");
  app.add_flag("--list-parameters", raw.list, "name, dtype, shape, role, tied names, evidence")->group("Inspect");
  app.add_option("--compile-to", raw.compileTo, "stop after import, grad, shard, schedule or plan; IR to stdout or -o")
      ->check(CLI::IsMember({"import", "grad", "shard", "schedule", "plan"}))
      ->group("Inspect");
  app.add_option("--dump-phases-to", c.dumpPhasesTo, "folder for the IR after each phase")->group("Inspect");
  app.add_option("--memory-html", c.memoryHtml, "page with the memory of each tier over the step")->group("Inspect");
  app.add_option("--emit-trace", c.emitTrace, "Chrome trace of the planned step, as zero-run --trace writes one")
      ->group("Inspect");
  app.add_flag("-h,--help", raw.help, "the short help");
  app.add_flag("--help-all", raw.helpAll, "every flag");
  app.add_flag("--version", raw.version, "the version");
}

void addModel(CLI::App &app, Flags &flags, RawFlags &raw) {
  CompileOptions &c = flags.compile;
  app.add_option("--dim", raw.dims, "NAME=N: bind a symbolic dimension")->take_all()->group("Model");
  app.add_option("--loss", c.loss, "the output to differentiate (default: the only floating scalar)")->group("Model");
  app.add_option("--loss-op", c.lossOp,
                 "cross_entropy:LOGITS:LABELS, mse:OUT:TARGET, l1, bce_with_logits, ...: appended")
      ->group("Model");
  app.add_flag("--forward-only", c.forwardOnly,
               "evaluation or inference, for zero-run eval: no backward, no optimizer; dropout off and batch norm in "
               "evaluation mode unless --dropout, --batch-norm say otherwise")
      ->group("Model");
  app.add_option("--outputs", c.outputs, "graph outputs to hand over (default: all), with --forward-only")
      ->take_all()
      ->group("Model");
  app.add_option("--ort-checkpoint", c.ortCheckpoint, "parameters of an ONNX Runtime training_model (checkpoint)")
      ->group("Model");
  app.add_option("--ort-optimizer", c.ortOptimizer, "its update rule (optimizer_model.onnx, where it is there)")
      ->group("Model");
  app.add_option("--limit", c.limits,
                 "NAME=N: nodes, node-attributes, name-bytes, rank, model-bytes, folding-work, ...")
      ->take_all()
      ->group("Model");
  app.add_option("--trainable", c.trainable, "globs of initializers that train")->take_all()->group("Model");
  app.add_option("--frozen", c.frozen, "globs of initializers that do not")->take_all()->group("Model");
  app.add_option("--tie", raw.ties, "A=B: initializer B is A, transposed where it fits so")->take_all()->group("Model");
  app.add_option("--padding-idx", raw.paddings,
                 "GLOB=K|none: row K of these embeddings gets no gradient (found where torch.export says so, or a row "
                 "is zeros)")
      ->take_all()
      ->group("Model");
  app.add_option("--untie", c.untied, "initializers of which every use is a parameter of its own")
      ->take_all()
      ->group("Model");
  app.add_option("--dropout", c.dropout, "as-exported, off or force")
      ->check(CLI::IsMember({"as-exported", "off", "force"}))
      ->group("Model");
  app.add_option("--batch-norm", c.batchNorm,
                 "as-exported, train (each batch's statistics; running ones are kept, rank 0's are saved) or eval")
      ->check(CLI::IsMember({"as-exported", "train", "eval"}))
      ->group("Model");
  app.add_option("--batch-norm-variance", c.batchNormVariance,
                 "of the running statistics: torch (divided by N - 1) or onnx (by N)")
      ->check(CLI::IsMember({"torch", "onnx"}))
      ->group("Model");
  app.add_option("--seed", c.seed, "of dropout and data order")->group("Model");
}

void addTraining(CLI::App &app, Flags &flags, RawFlags &raw) {
  CompileOptions &c = flags.compile;
  const char *group = "Training (torch's definitions and defaults)";
  app.add_option("--optimizer", c.rule, "adamw, adam, sgd or momentum")
      ->check(CLI::IsMember({"adamw", "adam", "sgd", "momentum"}))
      ->group(group);
  app.add_option("--lr", c.lr, "learning rate (1e-3)")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--betas", raw.betas, "B1,B2 (0.9,0.999)")->group(group);
  app.add_option("--eps", c.eps, "(1e-8)")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--weight-decay", c.weightDecay, "(adamw 0.01, else 0)")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--momentum", c.momentum, "(0.9)")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--no-decay", c.noDecay, "globs of parameters without weight decay")->take_all()->group(group);
  app.add_option("--clip-grad-norm", c.clipGradNorm, "global L2 norm over all ranks")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option(
         "--loss-mean", c.lossMean,
         "rank: over the labels that count of each rank's micro-step, then over these, as torch's DDP; global: over "
         "those of all ranks and micro-steps")
      ->check(CLI::IsMember({"rank", "global"}))
      ->group(group);
  app.add_option("--grad-accumulation", c.accumulation, "micro-steps per step (1)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->group(group);
  app.add_option("--checkpoint-activations", c.checkpointActivations,
                 "none; block: recompute inside blocks; selective: what costs little per byte, or, with --device-mem, "
                 "as little as fits")
      ->check(CLI::IsMember({"none", "block", "selective"}))
      ->group(group);
  app.add_option("--precision", c.precision,
                 "fp32; bf16 or fp16: parameters and gradients in it, fp32 master weights and state; fp16 scales the "
                 "loss, by DeepSpeed's rules and defaults")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->group(group);
  app.add_option("--loss-scale", c.lossScale, "fp16: a fixed scale, or 0: dynamic (0)")
      ->check(CLI::Range(0.0, 0x1p126))
      ->group(group);
  app.add_option("--initial-loss-scale", c.initialLossScale, "of the first step (65536)")
      ->check(CLI::Range(0x1p-126, 0x1p126))
      ->group(group);
  app.add_option("--min-loss-scale", c.minLossScale, "an overflow at this scale ends the run (1)")
      ->check(CLI::Range(0x1p-126, 0x1p126))
      ->group(group);
  app.add_option("--loss-scale-window", c.lossScaleWindow, "steps without overflow until it doubles (1000)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 62))
      ->group(group);
  app.add_option("--loss-scale-hysteresis", c.lossScaleHysteresis, "overflows until it halves (2)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 62))
      ->group(group);
  app.add_flag("--consecutive-hysteresis", c.consecutiveHysteresis,
               "each step without overflow restores the hysteresis, not only one that doubles the scale")
      ->group(group);
}

void addPartitioning(CLI::App &app, Flags &flags, RawFlags &raw) {
  CompileOptions &c = flags.compile;
  const char *group = "Partitioning";
  app.add_option("--world-size", c.worldSize, "ranks (1)")->check(CLI::Range(int64_t(1), int64_t(65536)))->group(group);
  app.add_option("--ranks-per-node", c.ranksPerNode, "the mesh is node x local (all)")
      ->check(CLI::Range(int64_t(1), int64_t(65536)))
      ->group(group);
  app.add_option("--zero-stage", c.stage, "0 nothing, 1 optimizer state, 2 + gradients, 3 + parameters")
      ->check(CLI::Range(int64_t(0), int64_t(3)))
      ->group(group);
  app.add_option("--bucket-size", raw.bucketSize, "bytes of a communication bucket (25MiB)")->group(group);
  app.add_option("--tile-linear", raw.tileLinear, "tile a linear whose weight has more bytes; auto: more than a bucket")
      ->group(group);
  app.add_option("--prefetch", raw.prefetch, "bytes gathered ahead, auto or none (auto)")->group(group);
  app.add_option("--micro-order", c.microOrder,
                 "with accumulation: rolled, one micro-step after the other; vertical, all of a block before the next, "
                 "whose parameters are then loaded once for all of them; auto: with --offload-param the faster (auto)")
      ->check(CLI::IsMember({"auto", "rolled", "vertical"}))
      ->group(group);
  app.add_option("--residency", raw.residency,
                 "bytes for parameters that stay gathered (stage 3) or on the device (--offload-param), none, or auto: "
                 "what --device-mem leaves, and on the host what --host-mem leaves; nothing without them (auto)")
      ->group(group);
  auto offload = [&](const char *flag, std::string &value, const char *what) {
    app.add_option(flag, value, what)->check(CLI::IsMember({"none", "host", "nvme"}))->group(group);
  };
  offload("--offload-optimizer", c.offloadOptimizer, "gradients, optimizer state, the update: none, host or nvme");
  offload("--offload-param", c.offloadParam, "parameters: none, host or nvme (stage 3, or one rank)");
  offload("--offload-activation", c.offloadActivation, "what forward leaves for backward: none, host or nvme");
  app.add_option("--offload-ratio", c.offloadRatio, "share of the update done on the host (1)")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  app.add_flag("--delay-update", raw.delayUpdate,
               "the update on the host runs beside the whole next step: parameters are one update old")
      ->group(group);
  app.add_option("--delay-after", raw.delayAfter, "ordinary steps before the update is delayed (40)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 62))
      ->group(group);
  app.add_flag("--explain-offload", flags.explainOffload, "what other placements would need and move")->group(group);
  app.add_flag("--auto", flags.automatic,
               "choose what no flag says of stage, recomputation and offload: the fastest plan within the budgets")
      ->group(group);
  app.add_option("--machine", c.machine, "rates measured by zero-run bench-io")->group(group);
  app.add_option("--device-mem", raw.deviceMemory, "hard budget per rank, as 6GiB or 800MB")->group(group);
  app.add_option("--host-mem", raw.hostMemory, "the same of the host tier")->group(group);
  app.add_option("--nvme-mem", raw.nvmeMemory, "the same of the NVMe tier")->group(group);
}

void addCommunication(CLI::App &app, Flags &flags) {
  CompileOptions &c = flags.compile;
  const char *group = "Communication (ZeRO++)";
  app.add_option("--quantize-weights", c.quantizeWeights, "none, or int8: how parameters are gathered (qwZ, stage 3)")
      ->check(CLI::IsMember({"none", "int8"}))
      ->group(group);
  app.add_option("--quantize-gradients", c.quantizeGradients, "none, int4 or int8: how gradients are reduced (qgZ)")
      ->check(CLI::IsMember({"none", "int4", "int8"}))
      ->group(group);
  app.add_option("--quantize-block", c.quantizeBlock,
                 "elements that share a scale, even (512 of weights, 128 of gradients)")
      ->check(CLI::Range(int64_t(2), int64_t(1) << 40))
      ->group(group);
  app.add_flag("--quantize-error-feedback", c.errorFeedback,
               "add what gradients lose by quantization to the next ones (LoCo)")
      ->group(group);
  app.add_flag("--hierarchical", c.hierarchical,
               "backward gathers parameters inside the node, from a secondary shard (hpZ, stage 3)")
      ->group(group);
  app.add_flag(
         "--hierarchical-collectives", c.hierarchicalCollectives,
         "gather between nodes first, reduce inside the node first: fewer bytes between nodes; sums differ in bits")
      ->group(group);
}

} // namespace

void addFlags(CLI::App &app, Flags &flags, RawFlags &raw) {
  addGeneral(app, flags, raw);
  addModel(app, flags, raw);
  addTraining(app, flags, raw);
  addPartitioning(app, flags, raw);
  addCommunication(app, flags);
}

} // namespace zc::tool
