#include "kernels/Views.h"

#include <algorithm>
#include <utility>

namespace zc {

static Error refused(const KernelSpec &spec, const std::string &why) {
  return makeError(Code::corrupt, 711, "plan gives kernel '" + spec.name + "' views that it cannot have: " + why, {},
                   "compile the model again for the machine that it is to run on");
}

Status checkViews(const KernelSpec &spec) {
  if (!spec.has("views"))
    return {};
  if (!traitsOf(spec.name).takesViews())
    return refused(spec, "it takes operands as they are");
  return throughViews(spec).status();
}

Result<SeenSpec> throughViews(const KernelSpec &spec) {
  SeenSpec seen{spec, {}};
  if (!spec.has("views")) {
    for (size_t i = 0; i < spec.operands.size(); ++i)
      seen.views.push_back(StridedView::whole(i, spec.operands[i].dims));
    return seen;
  }
  auto views = decodeViews(spec.getInts("views"));
  if (!views)
    return refused(spec, "the list is none of views");
  std::vector<int64_t> elements;
  for (const TensorType &type : spec.operands)
    elements.push_back(type.numElements());
  if (auto problem = findProblem(*views, elements, spec.numInputs))
    return refused(spec, problem->what);
  seen.views = *std::move(views);
  seen.spec.operands.clear();
  for (const StridedView &view : seen.views)
    seen.spec.operands.push_back({spec.operands[view.tensor].dtype, view.sizes});
  seen.spec.attributes.erase("views");
  return seen;
}

bool isSeenWhole(const KernelSpec &spec, size_t operand) {
  auto views = spec.has("views") ? decodeViews(spec.getInts("views")) : std::nullopt;
  return !views || std::all_of(views->begin(), views->end(), [&](const StridedView &view) {
    return view.tensor != operand || view.isAllOf(spec.operands[operand].dims);
  });
}

std::vector<int64_t> stridesAlong(const StridedView &view, const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  for (size_t i = 0; i < view.sizes.size(); ++i)
    if (view.sizes[i] != 1)
      strides[shape.size() - view.sizes.size() + i] = view.strides[i];
  return strides;
}

} // namespace zc
