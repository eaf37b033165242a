//===- Options.cpp - what the shard stage can be told -----------------------------------===//

#include "compiler/shard/Options.h"

using namespace zc;

static void listCommunication(ShardOptions &o, OptionList &list) {
  list.group("Communication (ZeRO++)");
  list.add("quantize-weights", o.quantizeWeights, "none, or int8: how parameters are gathered (qwZ, stage 3)");
  list.add("quantize-gradients", o.quantizeGradients, "none, int4 or int8: how gradients are reduced (qgZ)")
      .forTraining();
  list.add("quantize-block", o.quantizeBlock, Range<int64_t>{2, int64_t(1) << 40},
           "elements that share a scale, even (512 of weights, 128 of gradients)");
  list.add("quantize-error-feedback", o.errorFeedback,
           "add what gradients lose by quantization to the next ones (LoCo)")
      .forTraining();
  list.add("hierarchical", o.hierarchical,
           "backward gathers parameters inside the node, from a secondary shard (hpZ, stage 3)")
      .forTraining();
  list.add("hierarchical-collectives", o.hierarchicalCollectives,
           "gather between nodes first, reduce inside the node first: fewer bytes between nodes; sums differ in bits");
}

static void listPlaces(ShardOptions &o, OptionList &list) {
  list.add("residency", o.residency, ByteCount{0, {{"auto", -1}, {"none", 0}}},
           "bytes for parameters that stay gathered (stage 3) or on the device (--offload-param), none, or auto: what "
           "--device-mem leaves, and on the host what --host-mem leaves; nothing without them (auto)");
  list.add("offload-optimizer", o.offloadOptimizer,
           "gradients, optimizer state, the update: none, host, or nvme, where gradients wait on the host as far as "
           "--host-mem has room")
      .forTraining();
  list.add("offload-param", o.offloadParam, "parameters: none, host or nvme (stage 3, or one rank)");
  list.add("offload-activation", o.offloadActivation, "what forward leaves for backward: none, host or nvme")
      .forTraining();
  list.add("offload-ratio", o.offloadRatio, Range<double>{0, 1}, "share of the update done on the host (1)")
      .forTraining();
  list.add("delay-update", o.delayUpdate,
           "the update on the host runs beside the whole next step: parameters are one update old")
      .forTraining();
  list.add("delay-after", o.delayAfter, Range<int64_t>{0, int64_t(1) << 62},
           "ordinary steps before the update is delayed (40)")
      .forTraining();
}

void zc::listOptions(ShardOptions &o, OptionList &list) {
  list.group("Training (torch's definitions and defaults)", Option::Needs::training);
  list.add("grad-accumulation", o.accumulation, Range<int64_t>{1, int64_t(1) << 20}, "micro-steps per step (1)");
  list.add(
      "grad-accum-dtype", o.gradAccumDtype,
      "what reduced gradients are kept and added up in: the type of the parameters, or fp32, where sums over ranks and "
      "micro-steps are not rounded to 16 bits (parameters)");
  list.group("Partitioning");
  list.add("world-size", o.worldSize, Range<int64_t>{1, 65536}, "ranks (1)");
  list.add("ranks-per-node", o.ranksPerNode, Range<int64_t>{1, 65536}, "the mesh is node x local (all)");
  list.add("tensor-parallel", o.model, Range<int64_t>{1, 65536},
           "ranks of a node that share the work on a sample: weights are cut by heads, hidden units, vocabulary (1)");
  list.add("partition-activations", o.partitionActivations,
           "with --tensor-parallel and --checkpoint-activations: what is kept for recomputation is cut over the ranks "
           "that share samples, and gathered in backward (Pa; with --offload-activation the part leaves the device)")
      .forTraining();
  list.add("zero-stage", o.stage, Range<int64_t>{0, 3}, "0 nothing, 1 optimizer state, 2 + gradients, 3 + parameters");
  list.add("bucket-size", o.bucketSize, ByteCount{1, {}}, "bytes of a communication bucket (25MiB)");
  list.add("tile-linear", o.tileLinear, ByteCount{1, {{"auto", -1}}},
           "tile a linear whose weight has more bytes; auto: more than a bucket");
  list.add("micro-order", o.microOrder,
           "with accumulation: rolled, one micro-step after the other; vertical, all of a block before the next, whose "
           "parameters are then loaded once for all of them; auto: with --offload-param the faster (auto)")
      .forTraining();
  listPlaces(o, list);
  listCommunication(o, list);
  list.chosen();
  list.add("model-place", o.modelPlace, "of the model axis in the mesh: innermost, before-local or outermost");
  list.add("vertical-most", o.verticalMost, Range<int64_t>{0}, "operations of all micro-steps");
  list.add("resident", o.resident, ByteCount{}, "bytes for parameters kept whole; not with quantize-weights");
  list.add("resident-on-host", o.residentOnHost, ByteCount{},
           "bytes for parameters that offload-param=nvme leaves on the host");
  list.add("gradients-on-host", o.gradientsOnHost, ByteCount{},
           "bytes for gradients that offload-optimizer=nvme leaves on the host (all)");
  list.add("read-ahead", o.readAhead, ByteCount{},
           "bytes for state that offload-optimizer=nvme reads before updates that wait for all gradients");
  list.add("chunk", o.chunk, ByteCount{}, "bytes of fp32 moved at once");
}

Status zc::validate(const ShardOptions &o) {
  if (o.quantizeBlock % 2 != 0)
    return optionError(std::to_string(o.quantizeBlock) + " elements per scale: an even number is wanted",
                       "quantize-block");
  if (o.ranksPerNode != 0 && o.worldSize % o.ranksPerNode != 0)
    return optionError(std::to_string(o.ranksPerNode) + " ranks per node do not divide a world of " +
                           std::to_string(o.worldSize),
                       "ranks-per-node");
  if (int64_t perNode = o.perNode(); perNode % o.model != 0)
    return optionError(std::to_string(o.model) + " ranks that share samples do not divide " + std::to_string(perNode) +
                           " ranks per node",
                       "tensor-parallel");
  if (o.offloadOptimizer != Offload::none && o.stage == 0 && o.dataDegree() > 1)
    return optionError("stage 0 keeps all optimizer state on every rank; offload needs --zero-stage 1, 2 or 3",
                       "offload-optimizer");
  if (o.offloadParam != Offload::none && o.stage < 3 && o.dataDegree() > 1)
    return optionError("only parameters that are cut over ranks are offloaded: --zero-stage 3", "offload-param");
  // It hides the host's work: without any it would only make parameters older.
  if (o.delayUpdate && o.offloadOptimizer == Offload::none)
    return optionError("only an update on the host is delayed: --offload-optimizer host or nvme", "delay-update");
  return Status::success();
}
