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

/// Those of one kind, each known by what says it.
class UsesByName {
public:
  Status add(const ParamGroup &group) {
    for (const std::string &glob : group.globs) {
      ZC_RETURN_IF_ERROR(globs.add(glob, group.file));
      uses.push_back({group, glob});
    }
    return Status::success();
  }

  /// Those that match, the most special first.
  SmallVector<const Use *> of(graph::ParameterOp parameter, bool trains) {
    SmallVector<const Use *> own;
    for (size_t i : globs.matching(parameter.getSymName())) {
      own.push_back(&uses[i]);
      uses[i].isOfAny = true;
      uses[i].trains |= trains;
    }
    return own;
  }

  Status allUsed() const {
    for (const Use &use : uses)
      if (!use.trains)
        return makeError(Code::usage, unmatchedGlob,
                         use.isOfAny ? "no parameter that matches '" + use.glob + "' is trained"
                                     : "no parameter matches '" + use.glob + "'",
                         use.group.file, "--list-parameters shows their names");
    return Status::success();
  }

private:
  Globs globs;
  std::vector<Use> uses;
};

} // namespace

Status zc::importer::applyParamGroups(ModuleOp module, const std::vector<ParamGroup> &groups,
                                      const std::vector<std::string> &noDecay) {
  UsesByName ofGroups, ofNoDecay;
  for (const ParamGroup &group : groups)
    if (group.lrScale || group.weightDecay)
      ZC_RETURN_IF_ERROR(ofGroups.add(group));
  const ParamGroup without{"--no-decay", noDecay, {}, 0.0, {}};
  ZC_RETURN_IF_ERROR(ofNoDecay.add(without));
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    const bool trains = parameter.getRole() == graph::Role::trainable;
    SmallVector<const Use *> own = ofNoDecay.of(parameter, trains);
    own.append(ofGroups.of(parameter, trains));
    if (trains && !own.empty())
      parameter.setEvidence(parameter.getEvidence().value_or("").str() + settle(parameter, own));
  }
  ZC_RETURN_IF_ERROR(ofGroups.allUsed());
  return ofNoDecay.allUsed();
}
