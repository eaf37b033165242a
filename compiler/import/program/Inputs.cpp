//===- Inputs.cpp - the inputs of the graph, with sizes -----------------===//
#include "compiler/import/program/Inputs.h"
#include "base/Suggest.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/base/Listed.h"

using namespace zc;
using namespace zc::importer;

std::string zc::importer::symbolOf(const onnxpb::ValueInfo &input, int d) {
  const std::string &symbol = input.type().tensor_type().shape().dim(d).dim_param();
  return symbol.empty() ? input.name() + "." + std::to_string(d) : symbol;
}

namespace {

class InputReader {
public:
  InputReader(const ModelFile &file, const ImportOptions &options) : file(file), options(options) {}

  Result<GraphInput> read(const onnxpb::ValueInfo &input) {
    std::string where = file.path + ": input \"" + input.name() + "\"";
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
      return unsupportedError(unsupportedForm, "the input is not a tensor with a shape", where);
    const onnxpb::TensorTypeInfo &tensor = input.type().tensor_type();
    auto dtype = dtypeOfOnnx(tensor.elem_type());
    if (!dtype)
      return unsupportedError(unsupportedForm, "the input has element type " + onnxTypeName(tensor.elem_type()), where);
    if (tensor.shape().dim_size() > options.limits.rank)
      return badFile(badTensor, "the input has rank " + std::to_string(tensor.shape().dim_size()), where);
    GraphInput result{input.name(), *dtype, {}, nullptr};
    int64_t elements = 1;
    for (int d = 0; d < tensor.shape().dim_size(); ++d) {
      int64_t size = sizeOfDimension(input, d);
      if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > options.limits.tensorBits / 64)
        return tooManyElements(input, size, where);
      result.dims.push_back(size);
    }
    auto value = options.fixedInputs.find(input.name());
    if (value == options.fixedInputs.end())
      return result;
    if (static_cast<int64_t>(value->second.size()) != elements * sizeOf(*dtype))
      return makeError(Code::usage, badFixedInput,
                       "the value given for the input has " + std::to_string(value->second.size()) +
                           " bytes, but its shape needs " + std::to_string(elements * sizeOf(*dtype)),
                       where);
    result.fixed = &value->second;
    return result;
  }

  /// Every symbol has a size, and every size given a symbol.
  Status checkSymbols() const {
    for (const auto &[symbol, size] : options.dims)
      if (!llvm::is_contained(symbols, symbol))
        return noSuchSymbol(symbol);
    if (!unbound.empty()) {
      std::string help = "give", where;
      for (size_t i = 0; i < unbound.size(); ++i) {
        help += " --dim '" + unbound[i] + "=N'";
        where += (i == 0 ? ": " : ", ") + places[i];
      }
      help += where;
      return makeError(Code::usage, unboundDims,
                       std::to_string(unbound.size()) + " symbolic dimension" +
                           (unbound.size() == 1 ? " has" : "s have") + " no size: " + listed(unbound, 64),
                       file.path, help);
    }
    return Status::success();
  }

private:
  /// The file's fault, unless a --dim has a part in it.
  Error tooManyElements(const onnxpb::ValueInfo &input, int64_t size, const std::string &where) const {
    std::string chosen;
    for (const onnxpb::Dimension &dim : input.type().tensor_type().shape().dim())
      if (!dim.has_dim_value() && options.dims.count(dim.dim_param()))
        chosen = " --dim '" + dim.dim_param() + "=N'";
    return makeError(chosen.empty() ? Code::badInput : Code::usage, badTensor,
                     "dimension " + std::to_string(size) + " of the input is negative or too large", where,
                     chosen.empty() ? "" : "give a smaller" + chosen);
  }
  Error noSuchSymbol(const std::string &symbol) const {
    std::string help = "all dimensions are fixed";
    if (std::string near = nearest(symbol, symbols); !near.empty())
      help = "did you mean '" + near + "'?";
    else if (!symbols.empty())
      help = "dimensions are " + listed(symbols, 64);
    return makeError(Code::usage, unknownDim, "there is no symbolic dimension '" + symbol + "'", file.path, help);
  }

  /// 1 where there is no size yet, which checkSymbols tells.
  int64_t sizeOfDimension(const onnxpb::ValueInfo &input, int d) {
    const onnxpb::Dimension &dim = input.type().tensor_type().shape().dim(d);
    if (dim.has_dim_value())
      return dim.dim_value();
    std::string symbol = symbolOf(input, d);
    if (!llvm::is_contained(symbols, symbol))
      symbols.push_back(symbol);
    auto bound = options.dims.find(symbol);
    if (bound != options.dims.end())
      return bound->second;
    if (options.anySize)
      return kAnySize;
    if (!llvm::is_contained(unbound, symbol)) {
      unbound.push_back(symbol);
      places.push_back("dimension " + std::to_string(d) + " of input \"" + input.name() + "\"");
    }
    return 1;
  }

  const ModelFile &file;
  const ImportOptions &options;
  /// With ImportOptions::anySize: not 1, which would broadcast.
  static constexpr int64_t kAnySize = 2;

  std::vector<std::string> unbound, symbols;
  std::vector<std::string> places; ///< of each unbound one, where it is first
};

} // namespace

Result<std::vector<GraphInput>> zc::importer::readInputs(const ModelFile &file, const ImportOptions &options,
                                                         const Parameters &parameters) {
  InputReader reader(file, options);
  std::vector<GraphInput> inputs;
  for (const onnxpb::ValueInfo &input : file.graph().input()) {
    if (parameters.find(input.name()))
      continue;
    auto read = reader.read(input);
    if (!read.ok())
      return read.error();
    inputs.push_back(std::move(*read));
  }
  ZC_RETURN_IF_ERROR(reader.checkSymbols());
  return inputs;
}
