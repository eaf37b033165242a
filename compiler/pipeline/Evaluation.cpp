//===- Evaluation.cpp - the evaluation beside training ---------------------------------===//

#include "compiler/pipeline/Evaluation.h"
#include "dialects/graph/ModuleAttrs.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace zc;

CompileOptions zc::evaluationOptions(const CompileOptions &training) {
  CompileOptions own = training;
  own.withEval = false;
  own.import.forwardOnly = own.strategy.grad.forwardOnly = true;
  own.import.dropout = importer::DropoutPolicy::off;
  own.import.batchNorm = importer::BatchNormPolicy::eval;
  return own;
}

Status zc::keepLoss(ModuleOp forward, const std::string &model) {
  graph::ProgramOp program = graph::programOf(forward, graph::Phase::micro);
  std::optional<graph::Outputs> outputs = program ? graph::outputsOf(program) : std::nullopt;
  if (!outputs || !outputs->loss)
    return makeError(Code::usage, 394, "which output is the loss to evaluate is not known", model,
                     "name it with --loss");
  auto exit = cast<graph::ReturnOp>(program.getBlock().getTerminator());
  auto index = static_cast<size_t>(*outputs->loss);
  exit.getResultsMutable().assign(exit.getResults()[index]);
  outputs->names = {outputs->names[index]};
  outputs->loss = 0;
  graph::setOutputs(program, outputs);
  return Status::success();
}

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// As one type in another precision: running statistics that training assigns stay in f32.
static bool differInPrecision(Type a, Type b) {
  auto one = cast<RankedTensorType>(a), other = cast<RankedTensorType>(b);
  return one.getShape() == other.getShape() && isa<FloatType>(one.getElementType()) &&
         isa<FloatType>(other.getElementType());
}

/// Reads what training keeps of a parameter, in the type that the evaluation computes with.
static void readAsKept(graph::ProgramOp eval, const SymbolTable &symbols) {
  for (auto read : llvm::make_early_inc_range(eval.getOps<graph::ReadOp>())) {
    const Type kept = symbols.lookup<graph::ParameterOp>(read.getParameter()).getType(), own = read.getType();
    if (kept == own)
      continue;
    OpBuilder builder(read->getBlock(), std::next(read->getIterator()));
    read.getResult().setType(cast<RankedTensorType>(kept));
    auto narrowed =
        builder.create<graph::CastOp>(read.getLoc(), read.getResult(), cast<RankedTensorType>(own).getElementType());
    read.getResult().replaceAllUsesExcept(narrowed.getResult(), narrowed);
  }
}

Status zc::addEvaluation(ModuleOp training, ModuleOp forward, const std::string &model) {
  auto mismatch = [&](const std::string &what) {
    return makeError(Code::unsupported, 395, "the evaluation does not fit the training step: " + what, model,
                     "leave --with-eval out, and evaluate with a --forward-only plan");
  };
  graph::ProgramOp micro = graph::programOf(training, graph::Phase::micro),
                   eval = graph::programOf(forward, graph::Phase::micro);
  if (micro.getInputNames() != eval.getInputNames() ||
      micro.getBlock().getArgumentTypes() != eval.getBlock().getArgumentTypes())
    return mismatch("they have other inputs");
  SymbolTable symbols(training), ownSymbols(forward);
  const std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(&eval.getBody());
  for (const SymbolTable::SymbolUse &use : *uses) {
    StringRef name = use.getSymbolRef().getRootReference();
    auto own = ownSymbols.lookup<graph::ParameterOp>(name), there = symbols.lookup<graph::ParameterOp>(name);
    if (!own || (there && there.getType() != own.getType() && !differInPrecision(there.getType(), own.getType())))
      return mismatch("parameter '" + name.str() + "' is " + (own ? textOf(own.getType()) : "none") +
                      (there ? " there and " + textOf(there.getType()) + " here" : ""));
    if (!there)
      symbols.insert(own->clone(), Block::iterator(micro));
  }
  OpBuilder builder = OpBuilder::atBlockEnd(training.getBody());
  const std::string name = graph::freeProgramName(training, graph::Phase::eval);
  auto added = cast<graph::ProgramOp>(builder.clone(*eval));
  added.setSymName(name);
  added.setPhase(graph::Phase::eval);
  readAsKept(added, symbols);
  return Status::success();
}
