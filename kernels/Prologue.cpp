#include "kernels/Prologue.h"
#include "kernels/Views.h"
#include "kernels/shapes/Strided.h"

#include <algorithm>

namespace zc {

namespace {

Error noProgram(const KernelSpec &spec, const std::string &why) {
  return makeError(Code::corrupt, 715, "plan gives kernel '" + spec.name + "' a program that it cannot have: " + why,
                   {}, "compile the model again with this version");
}

/// The shape that all `inputs` broadcast to; nothing where there is none.
std::optional<shapes::Dims> broadcastOf(const std::vector<TensorType> &inputs) {
  shapes::Dims shape;
  for (const TensorType &input : inputs) {
    if (input.dims.size() > shape.size())
      shape.insert(shape.begin(), input.dims.size() - shape.size(), 1);
    const size_t lead = shape.size() - input.dims.size();
    for (size_t i = 0; i < input.dims.size(); ++i)
      if (input.dims[i] != 1)
        shape[lead + i] = input.dims[i];
  }
  auto fits = [&](const TensorType &input) { return shapes::broadcastsTo(input.dims, shape); };
  if (!std::all_of(inputs.begin(), inputs.end(), fits))
    return std::nullopt;
  return shape;
}

} // namespace

std::vector<StridedView> Prologue::views() const {
  std::vector<StridedView> all;
  for (const TensorType &input : inputs)
    all.push_back(StridedView::whole(all.size(), input.dims));
  all.push_back(StridedView::whole(all.size(), result.dims));
  return all;
}

Status checkProgram(const KernelSpec &spec) {
  if (spec.name == "fused") {
    Result<SeenSpec> seen = throughViews(spec);
    return seen ? readFused(seen->spec).status() : seen.status();
  }
  return spec.has("program") ? throughProgram(spec).status() : Status();
}

Result<ProgrammedSpec> throughProgram(const KernelSpec &spec) {
  ProgrammedSpec seen{spec, {}};
  if (!spec.has("program"))
    return seen;
  const KernelTraits &kernel = traitsOf(spec.name);
  if (!kernel.takesProgram())
    return noProgram(spec, "it takes operands as they are");
  const size_t others = kernel.describedInputs() - 1;
  if (spec.numInputs > spec.operands.size() || spec.numInputs <= others || spec.numInputs - others > kFusedInputs)
    return noProgram(spec, "it would have " + std::to_string(spec.numInputs) + " inputs with " +
                               std::to_string(others) + " of the kernel's own");
  const auto behind = spec.operands.begin() + static_cast<std::ptrdiff_t>(spec.numInputs - others);
  Prologue prologue{{}, {spec.operands.begin(), behind}, {}};
  std::vector<DType> types;
  for (const TensorType &input : prologue.inputs) {
    if (!isFusedType(input.dtype) || input.dims.size() > shapes::kMaxRank)
      return noProgram(spec, "an input of the program is none of f32, bf16, f16 or bool, or has too many dimensions");
    types.push_back(input.dtype);
  }
  std::optional<shapes::Dims> shape = broadcastOf(prologue.inputs);
  if (!shape)
    return noProgram(spec, "its inputs do not broadcast");
  std::string problem;
  std::optional<FusedProgram> program = readFused(spec.getInts("program"), std::move(types), problem);
  if (!program)
    return noProgram(spec, problem);
  prologue.result = {program->typeOf(program->results[0]), *std::move(shape)};
  prologue.program = *std::move(program);
  seen.spec.operands.assign({prologue.result});
  seen.spec.operands.insert(seen.spec.operands.end(), behind, spec.operands.end());
  seen.spec.numInputs = others + 1;
  seen.spec.attributes.erase("program");
  seen.prologue = std::move(prologue);
  return seen;
}

} // namespace zc
