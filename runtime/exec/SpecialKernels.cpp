#include "runtime/exec/SpecialKernels.h"

#include "runtime/comm/Staging.h"
#include "runtime/plan/StepNames.h"

namespace zc {

namespace {

/// What a kernel of this file is made of.
struct SpecialParts {
  const KernelSpec &spec;
  AxisSet axes;
  Communicator &communicator;
  InputLoader &loader;
  OutputSink *outputs;

  uint64_t members() const { return static_cast<uint64_t>(communicator.mesh().size(axes)); }
};
using Made = Result<std::unique_ptr<Kernel>>;

//===-- collectives --------------------------------------------------------===//

template <typename Options> class CollectiveKernel : public Kernel {
protected:
  explicit CollectiveKernel(const SpecialParts &p) : communicator(p.communicator) {
    options.traffic = valueNamed<TrafficClass>(p.spec.getText(kTrafficAttribute)).value_or(TrafficClass::none);
    options.axes = p.axes;
  }

  Communicator &communicator;
  Options options;
};

/// Bytes are handed on as they are, the input in `parts`.
template <typename Options, Status (Communicator::*exchange)(const Options &)>
class ExchangeKernel : public CollectiveKernel<Options> {
public:
  ExchangeKernel(const SpecialParts &p, uint64_t parts) : CollectiveKernel<Options>(p) {
    this->options.bytes = static_cast<uint64_t>(p.spec.operands[0].numBytes()) / parts;
  }
  Status run(void *const *operands, const StepContext &) override {
    this->options.input = operands[0];
    this->options.output = operands[1];
    return (this->communicator.*exchange)(this->options);
  }
};
using AllGatherKernel = ExchangeKernel<AllGatherOptions, &Communicator::allGather>;
using AllToAllKernel = ExchangeKernel<AllToAllOptions, &Communicator::allToAll>;

class ReduceScatterKernel : public CollectiveKernel<ReduceScatterOptions> {
public:
  /// `isStaged`: there is a workspace behind the other operands.
  ReduceScatterKernel(const SpecialParts &p, bool isStaged)
      : CollectiveKernel(p), isStaged(isStaged), accumulates(p.spec.getInt("accumulate", 0) != 0) {
    options.elements = elementsOf(p);
    options.inputType = p.spec.operands[0].dtype;
    options.outputType = p.spec.operands[1].dtype;
    options.scale = p.spec.getReal("scale", 1);
    options.workspaceBytes = static_cast<uint64_t>(p.spec.workspace);
  }
  static uint64_t staging(const SpecialParts &p) {
    return reduceScatterStaging(p.members(), elementsOf(p), static_cast<uint64_t>(sizeOf(p.spec.operands[0].dtype)));
  }
  Status run(void *const *operands, const StepContext &context) override {
    options.input = operands[0];
    options.output = operands[1];
    options.workspace = isStaged ? operands[2] : nullptr;
    options.accumulate = accumulates && context.micro > 0;
    return communicator.reduceScatter(options);
  }

private:
  static uint64_t elementsOf(const SpecialParts &p) { return static_cast<uint64_t>(p.spec.operands[1].numElements()); }
  bool isStaged, accumulates;
};

class AllReduceKernel : public CollectiveKernel<AllReduceOptions> {
public:
  AllReduceKernel(const SpecialParts &p, bool isStaged)
      : CollectiveKernel(p), isStaged(isStaged), output(p.spec.operands.size() - 1) {
    options.elements = elementsOf(p);
    options.type = p.spec.operands[0].dtype;
    options.scale = p.spec.getReal("scale", 1);
    options.workspaceBytes = static_cast<uint64_t>(p.spec.workspace);
  }
  static uint64_t staging(const SpecialParts &p) {
    return allReduceStaging(p.members(), elementsOf(p), static_cast<uint64_t>(sizeOf(p.spec.operands[0].dtype)));
  }
  Status run(void *const *operands, const StepContext &) override {
    options.input = operands[0];
    options.output = operands[output];
    options.workspace = isStaged ? operands[output + 1] : nullptr;
    return communicator.allReduce(options);
  }

private:
  static uint64_t elementsOf(const SpecialParts &p) { return static_cast<uint64_t>(p.spec.operands[0].numElements()); }
  bool isStaged;
  size_t output; ///< 0 when there is one operand, read and written
};

/// A sum, if the plan gives it room for what peers send.
template <typename Sum> Made makeSum(const SpecialParts &p) {
  const uint64_t needed = p.communicator.stagesSums() ? Sum::staging(p) : 0;
  if (static_cast<uint64_t>(p.spec.workspace) < needed)
    return makeError(Code::corrupt, 658,
                     "plan gives \"" + p.spec.name + "\" a workspace of " + std::to_string(p.spec.workspace) +
                         " bytes, it needs " + std::to_string(needed),
                     {}, "compile the model again with this version");
  return Made(std::make_unique<Sum>(p, needed > 0));
}

//===-- inputs and outputs ---------------------------------------------------===//

class LoadInputKernel : public Kernel {
public:
  explicit LoadInputKernel(const SpecialParts &p)
      : loader(p.loader), input(static_cast<uint32_t>(p.spec.getInt("input", 0))),
        bytes(static_cast<uint64_t>(p.spec.operands[0].numBytes())) {}
  Status run(void *const *operands, const StepContext &context) override {
    return loader.load(input, context, operands[0], bytes);
  }

private:
  InputLoader &loader;
  uint32_t input;
  uint64_t bytes;
};

class StoreOutputKernel : public Kernel {
public:
  explicit StoreOutputKernel(const SpecialParts &p)
      : sink(p.outputs), output(static_cast<uint32_t>(p.spec.getInt("output", 0))),
        bytes(static_cast<uint64_t>(p.spec.operands[0].numBytes())) {}
  Status run(void *const *operands, const StepContext &context) override {
    return sink ? sink->store(output, context, operands[0], bytes) : Status();
  }

private:
  OutputSink *sink;
  uint32_t output;
  uint64_t bytes;
};

//===-- the table ------------------------------------------------------------===//

struct SpecialKernel {
  std::string_view name;
  Made (*make)(const SpecialParts &);
};
constexpr SpecialKernel kSpecialKernels[] = {
    {"all_gather", [](const SpecialParts &p) { return Made(std::make_unique<AllGatherKernel>(p, 1)); }},
    {"all_to_all", [](const SpecialParts &p) { return Made(std::make_unique<AllToAllKernel>(p, p.members())); }},
    {"reduce_scatter", makeSum<ReduceScatterKernel>},
    {"all_reduce", makeSum<AllReduceKernel>},
    {kLoadInput, [](const SpecialParts &p) { return Made(std::make_unique<LoadInputKernel>(p)); }},
    {kStoreOutput, [](const SpecialParts &p) { return Made(std::make_unique<StoreOutputKernel>(p)); }},
};

const SpecialKernel *findSpecial(std::string_view name) {
  for (const SpecialKernel &special : kSpecialKernels)
    if (special.name == name)
      return &special;
  return nullptr;
}

} // namespace

bool isSpecialKernel(std::string_view name) { return findSpecial(name) != nullptr; }

Result<std::unique_ptr<Kernel>> makeSpecialKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator,
                                                  InputLoader &loader, OutputSink *outputs) {
  const SpecialKernel *special = findSpecial(spec.name);
  if (!special)
    return std::unique_ptr<Kernel>();
  return special->make({spec, axes, communicator, loader, outputs});
}

} // namespace zc
