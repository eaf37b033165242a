#include "base/TensorSize.h"
#include "kernels/Prologue.h"
#include "kernels/Views.h"
#include "kernels/Workspace.h"

namespace zc {

namespace {
template <typename T> const T *find(const KernelSpec &spec, const std::string &key) {
  auto it = spec.attributes.find(key);
  return it == spec.attributes.end() ? nullptr : std::get_if<T>(&it->second);
}
} // namespace

int64_t KernelSpec::getInt(const std::string &key, int64_t fallback) const {
  const int64_t *value = find<int64_t>(*this, key);
  return value ? *value : fallback;
}

double KernelSpec::getReal(const std::string &key, double fallback) const {
  if (const double *value = find<double>(*this, key))
    return *value;
  const int64_t *integer = find<int64_t>(*this, key);
  return integer ? static_cast<double>(*integer) : fallback;
}

std::vector<int64_t> KernelSpec::getInts(const std::string &key) const {
  const std::vector<int64_t> *value = find<std::vector<int64_t>>(*this, key);
  return value ? *value : std::vector<int64_t>();
}

std::string KernelSpec::getText(const std::string &key) const {
  const std::string *value = find<std::string>(*this, key);
  return value ? *value : std::string();
}

namespace {
/// A kernel with something to say.
class NotedKernel : public Kernel {
public:
  NotedKernel(std::unique_ptr<Kernel> inner, std::string text) : inner(std::move(inner)), text(std::move(text)) {}
  Status run(void *const *operands, const StepContext &context) override { return inner->run(operands, context); }
  std::string note() const override { return text; }
  std::string method() const override { return inner->method(); }

private:
  std::unique_ptr<Kernel> inner;
  std::string text;
};
} // namespace

Status checkSpec(const KernelSpec &spec, Target target, const KernelTraits &traits) {
  if (spec.operands.empty() || spec.numInputs > spec.operands.size())
    return makeError(Code::corrupt, 701,
                     "plan asks kernel '" + spec.name + "' to take " + std::to_string(spec.numInputs) + " inputs of " +
                         std::to_string(spec.operands.size()) + " operands");
  if (spec.threads < 1)
    return makeError(Code::internal, 702,
                     "kernel '" + spec.name + "' prepared for " + std::to_string(spec.threads) + " threads");
  for (size_t i = 0; i < spec.operands.size(); ++i)
    if (!isCountable(spec.operands[i]))
      return makeError(Code::corrupt, 710,
                       "plan gives kernel '" + spec.name + "' operand " + std::to_string(i) +
                           " of a size that cannot be counted");
  ZC_RETURN_IF_ERROR(checkViews(spec));
  ZC_RETURN_IF_ERROR(checkProgram(spec));
  if (int64_t needed = workspaceBytes(spec, target); spec.workspace < needed)
    return makeError(Code::corrupt, 706,
                     "plan gives kernel '" + spec.name + "' a workspace of " + std::to_string(spec.workspace) +
                         " bytes, it needs " + std::to_string(needed),
                     {}, "compile the model again with this version");
  if (const KeptInput known = keptInput(spec, Target::cpu);
      spec.kept > 0 && (known.bytes == 0 || known.input != spec.keptInput || spec.kept < known.bytes))
    return makeError(Code::corrupt, 716,
                     "plan has kernel '" + spec.name + "' keep " + std::to_string(spec.kept) + " bytes of input " +
                         std::to_string(spec.keptInput) + ", of which it keeps no such thing",
                     {}, "compile the model again with this version");
  for (auto [input, output] : spec.inPlace)
    if (!traits.mayOverwrite(spec, input, output))
      return makeError(Code::corrupt, 709,
                       "plan asks kernel '" + spec.name + "' to write operand " + std::to_string(output) +
                           " over operand " + std::to_string(input) + ", which it cannot");
  return {};
}

void KernelRegistry::add(const std::string &name, KernelFactory factory) {
  addNoting(name, [factory = std::move(factory)](const KernelSpec &spec, std::string &) { return factory(spec); });
}

void KernelRegistry::addNoting(const std::string &name, NotingFactory factory) {
  auto [entry, isNew] = entries.try_emplace(name);
  if (isNew && runsOn != Target::cpu) // the plain kernel, whose traits they are, is a CPU's
    entry->second.traits = zc::traitsOf(name);
  entry->second.all.push_back({current, std::move(factory)});
}

void KernelRegistry::add(const std::string &name, KernelFactory factory, KernelTraits traits) {
  add(name, std::move(factory));
  entries[name].traits = traits;
}

const KernelTraits &KernelRegistry::traitsOf(std::string_view name) const {
  static const KernelTraits none;
  auto found = entries.find(name);
  return found == entries.end() ? none : found->second.traits;
}

Result<std::unique_ptr<Kernel>> KernelRegistry::prepare(const KernelSpec &spec) const {
  Implementation by;
  return prepare(spec, by);
}

Result<Implementation> KernelRegistry::implementationOf(const KernelSpec &spec) const {
  Implementation by;
  ZC_RETURN_IF_ERROR(prepare(spec, by).status());
  return by;
}

Result<std::unique_ptr<Kernel>> KernelRegistry::prepare(const KernelSpec &spec, Implementation &by) const {
  auto it = entries.find(spec.name);
  if (it == entries.end())
    return makeError(Code::corrupt, 700, "plan asks for kernel '" + spec.name + "', which this build does not have");
  ZC_RETURN_IF_ERROR(checkSpec(spec, runsOn, it->second.traits));
  std::string note;
  for (auto entry = it->second.all.rbegin();; ++entry) {
    Result<std::unique_ptr<Kernel>> kernel = entry->factory(spec, note);
    by = entry->implementation;
    if (kernel && !*kernel && std::next(entry) != it->second.all.rend())
      continue; // declined
    if (kernel && *kernel)
      by.method = (*kernel)->method();
    if (kernel && *kernel && !note.empty())
      kernel = std::unique_ptr<Kernel>(std::make_unique<NotedKernel>(std::move(*kernel), std::move(note)));
    return kernel;
  }
}

std::vector<std::string> KernelRegistry::names() const {
  std::vector<std::string> result;
  for (const auto &entry : entries)
    result.push_back(entry.first);
  return result;
}

} // namespace zc
