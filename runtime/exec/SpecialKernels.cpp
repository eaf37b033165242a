#include "runtime/exec/SpecialKernels.h"

#include "runtime/comm/Staging.h"

namespace zc {

namespace {

TrafficClass trafficOf(const KernelSpec &spec) {
  auto attribute = spec.attributes.find("traffic");
  const std::string *name = attribute == spec.attributes.end() ? nullptr : std::get_if<std::string>(&attribute->second);
  return trafficClassFromName(name ? *name : "");
}

class AllGatherKernel : public Kernel {
public:
  AllGatherKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator) : communicator(communicator) {
    options.bytes = static_cast<uint64_t>(spec.operands[0].numBytes());
    options.traffic = trafficOf(spec);
    options.axes = axes;
  }
  Status run(void *const *operands, const StepContext &) override {
    options.input = operands[0];
    options.output = operands[1];
    return communicator.allGather(options);
  }

private:
  Communicator &communicator;
  AllGatherOptions options;
};

class AllToAllKernel : public Kernel {
public:
  AllToAllKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator) : communicator(communicator) {
    options.traffic = trafficOf(spec);
    options.axes = axes;
    options.bytes = static_cast<uint64_t>(spec.operands[0].numBytes() / communicator.mesh().size(axes));
  }
  Status run(void *const *operands, const StepContext &) override {
    options.input = operands[0];
    options.output = operands[1];
    return communicator.allToAll(options);
  }

private:
  Communicator &communicator;
  AllToAllOptions options;
};

class ReduceScatterKernel : public Kernel {
public:
  ReduceScatterKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator)
      : communicator(communicator), accumulates(spec.getInt("accumulate", 0) != 0) {
    options.elements = static_cast<uint64_t>(spec.operands[1].numElements());
    options.inputType = spec.operands[0].dtype;
    options.outputType = spec.operands[1].dtype;
    options.scale = spec.getReal("scale", 1);
    options.traffic = trafficOf(spec);
    options.axes = axes;
    if (communicator.stagesSums())
      needed = reduceScatterStaging(static_cast<uint64_t>(communicator.mesh().size(axes)), options.elements,
                                    static_cast<uint64_t>(sizeOf(options.inputType)));
  }
  Status run(void *const *operands, const StepContext &context) override {
    options.input = operands[0];
    options.output = operands[1];
    options.workspace = needed > 0 ? operands[2] : nullptr;
    options.accumulate = accumulates && context.micro > 0;
    return communicator.reduceScatter(options);
  }

private:
  Communicator &communicator;
  bool accumulates;
  ReduceScatterOptions options;

public:
  uint64_t needed = 0; ///< bytes of workspace
};

class AllReduceKernel : public Kernel {
public:
  AllReduceKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator)
      : communicator(communicator), output(spec.operands.size() - 1) {
    options.elements = static_cast<uint64_t>(spec.operands[0].numElements());
    options.type = spec.operands[0].dtype;
    options.scale = spec.getReal("scale", 1);
    options.traffic = trafficOf(spec);
    options.axes = axes;
    if (communicator.stagesSums())
      needed = allReduceStaging(static_cast<uint64_t>(communicator.mesh().size(axes)), options.elements,
                                static_cast<uint64_t>(sizeOf(options.type)));
  }
  Status run(void *const *operands, const StepContext &) override {
    options.input = operands[0];
    options.output = operands[output];
    options.workspace = needed > 0 ? operands[output + 1] : nullptr;
    return communicator.allReduce(options);
  }

private:
  Communicator &communicator;
  size_t output; ///< 0 when there is one operand, read and written
  AllReduceOptions options;

public:
  uint64_t needed = 0; ///< bytes of workspace
};

class LoadInputKernel : public Kernel {
public:
  LoadInputKernel(const KernelSpec &spec, InputLoader &loader)
      : loader(loader), input(static_cast<uint32_t>(spec.getInt("input", 0))),
        bytes(static_cast<uint64_t>(spec.operands[0].numBytes())) {}
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
  StoreOutputKernel(const KernelSpec &spec, OutputSink *sink)
      : sink(sink), output(static_cast<uint32_t>(spec.getInt("output", 0))),
        bytes(static_cast<uint64_t>(spec.operands[0].numBytes())) {}
  Status run(void *const *operands, const StepContext &context) override {
    return sink ? sink->store(output, context, operands[0], bytes) : Status();
  }

private:
  OutputSink *sink;
  uint32_t output;
  uint64_t bytes;
};

} // namespace

/// A sum, if the plan gives it room for what peers send.
template <typename Sum>
Result<std::unique_ptr<Kernel>> makeSum(const KernelSpec &spec, AxisSet axes, Communicator &communicator) {
  auto sum = std::make_unique<Sum>(spec, axes, communicator);
  if (static_cast<uint64_t>(spec.workspace) < sum->needed)
    return makeError(Code::corrupt, 658,
                     "plan gives \"" + spec.name + "\" a workspace of " + std::to_string(spec.workspace) +
                         " bytes, it needs " + std::to_string(sum->needed),
                     {}, "compile the model again with this version");
  return std::unique_ptr<Kernel>(std::move(sum));
}

namespace {

struct SpecialParts {
  const KernelSpec &spec;
  AxisSet axes;
  Communicator &communicator;
  InputLoader &loader;
  OutputSink *outputs;
};

template <typename Made> Result<std::unique_ptr<Kernel>> makeCollective(const SpecialParts &p) {
  return std::unique_ptr<Kernel>(std::make_unique<Made>(p.spec, p.axes, p.communicator));
}

struct SpecialKernel {
  std::string_view name;
  bool isCollective;
  Result<std::unique_ptr<Kernel>> (*make)(const SpecialParts &);
};
constexpr SpecialKernel kSpecialKernels[] = {
    {"all_gather", true, makeCollective<AllGatherKernel>},
    {"all_to_all", true, makeCollective<AllToAllKernel>},
    {"reduce_scatter", true,
     [](const SpecialParts &p) { return makeSum<ReduceScatterKernel>(p.spec, p.axes, p.communicator); }},
    {"all_reduce", true,
     [](const SpecialParts &p) { return makeSum<AllReduceKernel>(p.spec, p.axes, p.communicator); }},
    {"load_input", false,
     [](const SpecialParts &p) -> Result<std::unique_ptr<Kernel>> {
       return std::unique_ptr<Kernel>(std::make_unique<LoadInputKernel>(p.spec, p.loader));
     }},
    {"store_output", false,
     [](const SpecialParts &p) -> Result<std::unique_ptr<Kernel>> {
       return std::unique_ptr<Kernel>(std::make_unique<StoreOutputKernel>(p.spec, p.outputs));
     }},
};

const SpecialKernel *findSpecial(std::string_view name) {
  for (const SpecialKernel &special : kSpecialKernels)
    if (special.name == name)
      return &special;
  return nullptr;
}

} // namespace

bool isSpecialKernel(std::string_view name) { return findSpecial(name) != nullptr; }

bool isCollective(std::string_view name) {
  const SpecialKernel *special = findSpecial(name);
  return special && special->isCollective;
}

Result<std::unique_ptr<Kernel>> makeSpecialKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator,
                                                  InputLoader &loader, OutputSink *outputs) {
  const SpecialKernel *special = findSpecial(spec.name);
  if (!special)
    return std::unique_ptr<Kernel>();
  return special->make({spec, axes, communicator, loader, outputs});
}

} // namespace zc
