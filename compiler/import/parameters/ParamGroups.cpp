#include "compiler/import/parameters/ParamGroups.h"
#include "compiler/import/base/Errors.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

namespace {

/// A glob of a group, and what it matched.
struct Use {
  const ParamGroup &group;
  const std::string &glob;
  bool isOfAny = false, trains = false;

  /// "; learning rate x 0.1 by 'h.0.*' of groups.json"
  std::string text(const char *what, double value) const {
    std::string text;
    llvm::raw_string_ostream(text) << "; " << what << llvm::format("%g", value) << " by '" << glob << "' of "
                                   << group.file;
    return text;
  }
};

/// What `parameter` has of its own, from the globs that match it, the most special first; as text.
std::string settle(graph::ParameterOp parameter, ArrayRef<const Use *> uses) {
  Builder builder(parameter.getContext());
  std::string text;
  for (const Use *use : uses) {
    const ParamGroup &group = use->group;
    if (group.lrScale && !parameter.getLrScaleAttr()) {
      parameter.setLrScaleAttr(builder.getF64FloatAttr(*group.lrScale));
      text += use->text("learning rate x ", *group.lrScale);
    }
    if (group.weightDecay && !parameter.getWeightDecayAttr()) {
      parameter.setWeightDecayAttr(builder.getF64FloatAttr(*group.weightDecay));
      text += use->text("weight decay ", *group.weightDecay);
    }
  }
  return text;
}

} // namespace

Status zc::importer::applyParamGroups(ModuleOp module, const std::vector<ParamGroup> &groups) {
  Globs globs;
  std::vector<Use> uses;
  for (const ParamGroup &group : groups)
    for (const std::string &glob : group.globs) {
      if (!group.lrScale && !group.weightDecay)
        continue;
      ZC_RETURN_IF_ERROR(globs.add(glob, group.file));
      uses.push_back({group, glob});
    }
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    const bool trains = parameter.getRole() == graph::Role::trainable;
    llvm::SmallVector<const Use *> own;
    for (size_t i : globs.matching(parameter.getSymName())) {
      own.push_back(&uses[i]);
      uses[i].isOfAny = true;
      uses[i].trains |= trains;
    }
    if (trains && !own.empty())
      parameter.setEvidence(parameter.getEvidence().value_or("").str() + settle(parameter, own));
  }
  for (const Use &use : uses)
    if (!use.trains)
      return makeError(Code::usage, unmatchedGlob,
                       use.isOfAny ? "no parameter that matches '" + use.glob + "' is trained"
                                   : "no parameter matches '" + use.glob + "'",
                       use.group.file, "--list-parameters shows their names");
  return Status::success();
}
