//===- Layout.h - where a parameter's elements lie on a rank ---------------------------===//
#pragma once

#include "base/Tensor.h"
#include "runtime/plan/PlanMesh.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zc::train {

DType dtypeOf(planpb::Type type);
TensorType typeOf(const planpb::Plan &plan, const planpb::Parameter &parameter);

/// A persistent slice that holds a parameter's values on every rank, whole or this rank's shard of its bucket.
struct Store {
  uint32_t slice = 0;
  DType type = DType::f32;
  AxisSet cut = {}; ///< the axes over which its bucket is cut there; none: whole
};
/// Every place that holds the values: the parameter itself, and the fp32 master copy where there is one.
std::vector<Store> storesOf(const planpb::Plan &plan, const planpb::Parameter &parameter);
/// The most exact of them: the master copy, else the parameter itself.
Store exactStore(const planpb::Plan &plan, const planpb::Parameter &parameter);

/// What a checkpoint keeps of each parameter as a whole tensor. `published`: of a delayed update the parameters as they
/// are computed with, which are older than the weights where they are trained.
enum class State : uint8_t { weights, moment1, moment2, published };
constexpr State kStates[] = {State::weights, State::moment1, State::moment2, State::published};
const char *nameOf(State state);
/// Under which a checkpoint's safetensors files note that name.
constexpr const char *kStateNote = "state";
/// Where that stands of a parameter; nothing where the plan has none.
std::optional<Store> storeOf(const planpb::Plan &plan, const planpb::Parameter &parameter, State state);

/// Elements [first, first + count) of a parameter, as its rank has it, which stand at element `at` of a store on one
/// rank.
struct Piece {
  int64_t first = 0, count = 0, at = 0;
};
/// What rank `rank` of the plan's mesh holds; count 0 when nothing.
Piece pieceOf(const planpb::Plan &plan, const Mesh &mesh, const planpb::Parameter &parameter, const Store &store,
              int rank);

/// What rank `rank` writes of it: ranks along the axes of the bucket share what all of them hold, and of those that
/// hold the same only the first group writes, so that each element is one rank's. Ranks of the model axes hold other
/// elements of what is cut over these.
Piece writtenPieceOf(const planpb::Plan &plan, const Mesh &mesh, const planpb::Parameter &parameter, const Store &store,
                     int rank);

/// A tensor as the model, weight files and checkpoints have it: a parameter, or all parts of one that was cut.
struct Whole {
  std::string name;
  TensorType type;
  std::vector<const planpb::Parameter *> parts; ///< in order of their elements; at least one
};
/// All of a plan's, in the order of their first parts.
std::vector<Whole> wholesOf(const planpb::Plan &plan);
const std::string &wholeNameOf(const planpb::Parameter &parameter);
TensorType wholeTypeOf(const planpb::Plan &plan, const planpb::Parameter &parameter);
/// Elements before a part's, in what it is a part of: the whole, or of one that is cut what a rank has of it.
inline int64_t firstOf(const planpb::Parameter &parameter) { return int64_t(parameter.part().first()); }
/// Elements before those of which a parameter is read: of one that is cut `inWhole` says which of the whole these are.
inline int64_t readFrom(const planpb::Parameter &parameter) { return parameter.has_cut() ? 0 : firstOf(parameter); }
/// Where `piece`, of rank `rank`'s parameter, is in the whole: pieces whose first elements count from the whole's
/// begin, in order. One, or of a parameter that is cut over the model axes as many as it takes; zeros that fill it up
/// are in none.
std::vector<Piece> inWhole(const planpb::Plan &plan, const Mesh &mesh, const planpb::Parameter &parameter, Piece piece,
                           int rank);

} // namespace zc::train
