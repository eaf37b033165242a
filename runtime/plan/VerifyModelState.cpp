#include "base/Tensor.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Tiers.h"
#include "runtime/plan/VerifyParts.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace zc::verify {

namespace {

constexpr uint64_t kAlignment = 64; // elements

uint64_t elementsOf(const planpb::TensorType &type) {
  return bytesOf(type) / static_cast<uint64_t>(sizeOf(static_cast<DType>(type.type())));
}

/// Relative, not empty, no component "..": the runtime opens it beneath the model's folder.
bool isTamePath(const std::string &path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos)
    return false;
  for (size_t at = 0; at <= path.size();) {
    size_t end = std::min(path.find('/', at), path.size());
    if (path.compare(at, end - at, "..") == 0)
      return false;
    at = end + 1;
  }
  return true;
}

/// Slices owned by parameters and buckets, so that no two own one.
using Owners = std::map<int64_t, std::string>;

Status verifyOwnedSlice(const planpb::Plan &plan, int64_t index, uint64_t bytes, bool mustPersist,
                        const std::string &owner, const char *label, Owners &owners) {
  if (!inRange(index, plan.slices_size()))
    return violation(483, label, owner + " has slice " + std::to_string(index) + ", which does not exist", owner);
  const planpb::Slice &slice = plan.slices(static_cast<int>(index));
  if (slice.bytes() != bytes)
    return violation(
        484, label, owner + " needs " + str(bytes) + " bytes, slice \"" + slice.name() + "\" has " + str(slice.bytes()),
        owner);
  if (mustPersist && !slice.persistent())
    return violation(485, label, owner + " lives in slice \"" + slice.name() + "\", which is not persistent", owner);
  // bucket_c5
  auto [entry, isNew] = owners.emplace(index, owner);
  if (slice.persistent() && !isNew)
    return violation(486, "bucket_c5",
                     "slice \"" + slice.name() + "\" belongs to " + entry->second + " and to " + owner, owner);
  return {};
}

/// parameter_c2
Status verifyInitial(const planpb::Parameter &parameter, const planpb::TensorType &type, const std::string &who) {
  switch (parameter.initial_case()) {
  case planpb::Parameter::kInline:
    if (parameter.inline_().size() != bytesOf(type))
      return violation(487, "parameter_c2",
                       who + " has " + str(parameter.inline_().size()) + " inline bytes, its type needs " +
                           str(bytesOf(type)),
                       parameter.name());
    return {};
  case planpb::Parameter::kSource: {
    const planpb::Source &source = parameter.source();
    if (!isTamePath(source.file()))
      return violation(488, "parameter_c2",
                       who + " comes from \"" + source.file() + "\", which may leave the model's folder",
                       parameter.name());
    if (!planpb::Type_IsValid(source.type()))
      return violation(489, "parameter_c2", who + " has a source of unknown type", parameter.name());
    uint64_t bytes = elementsOf(type) * static_cast<uint64_t>(sizeOf(static_cast<DType>(source.type())));
    if (source.bytes() != bytes || source.offset() > (uint64_t(1) << 62))
      return violation(490, "parameter_c2",
                       who + " has a source of " + str(source.bytes()) + " bytes at " + str(source.offset()) +
                           ", its type needs " + str(bytes),
                       parameter.name());
    return {};
  }
  case planpb::Parameter::INITIAL_NOT_SET:
    break;
  }
  return violation(491, "parameter_c2", who + " has no initial value", parameter.name());
}

/// parameter_c8
Status verifyCut(const planpb::Plan &plan, const planpb::Parameter &parameter, const planpb::TensorType &type,
                 const std::string &who) {
  const planpb::Cut &cut = parameter.cut();
  auto wrong = [&](const std::string &why) { return violation(589, "parameter_c8", who + why, parameter.name()); };
  const Mesh mesh = meshOf(plan);
  const int ranks = mesh.size(mesh.modelAxes());
  if (ranks < 2 || parameter.role() == planpb::BUFFER)
    return wrong(" is cut over " + std::to_string(ranks) + " ranks of model axes");
  if (!inRange(cut.type(), plan.types_size()))
    return wrong(" is cut from type " + str(cut.type()) + ", which does not exist");
  const planpb::TensorType &whole = plan.types(static_cast<int>(cut.type()));
  if (whole.type() != type.type() || whole.dims_size() != type.dims_size() || !inRange(cut.dim(), whole.dims_size()))
    return wrong(" is cut along dimension " + str(cut.dim()) + " from a tensor of another type or rank");
  for (int i = 0; i < whole.dims_size(); ++i)
    if (i != static_cast<int>(cut.dim()) && whole.dims(i) != type.dims(i))
      return wrong(" has " + std::to_string(type.dims(i)) + " elements along dimension " + std::to_string(i) +
                   ", the whole " + std::to_string(whole.dims(i)));
  const auto dim = static_cast<uint64_t>(whole.dims(static_cast<int>(cut.dim())));
  const uint64_t groups = cut.groups(), parts = groups * static_cast<uint64_t>(ranks);
  const uint64_t part =
      groups == 0 ? 0 : (dim / groups + static_cast<uint64_t>(ranks) - 1) / static_cast<uint64_t>(ranks);
  if (dim == 0 || part == 0 || (groups != 1 && dim % parts != 0) ||
      static_cast<uint64_t>(type.dims(static_cast<int>(cut.dim()))) != part * groups)
    return wrong(" has " + std::to_string(type.dims(static_cast<int>(cut.dim()))) + " of " + str(dim) +
                 " elements along dimension " + str(cut.dim()) + ", cut in " + str(cut.groups()) + " groups over " +
                 std::to_string(ranks) + " ranks");
  return {};
}

Status verifyParameter(const planpb::Plan &plan, const planpb::Parameter &parameter, Owners &owners) {
  std::string who = "parameter \"" + parameter.name() + "\"";
  // parameter_c1
  if (!inRange(parameter.type(), plan.types_size()) || !planpb::Role_IsValid(parameter.role()))
    return violation(492, "parameter_c1",
                     who + " has type " + str(parameter.type()) + " and role " + std::to_string(parameter.role()),
                     parameter.name());
  // parameter_c9
  for (double own : {parameter.lr_scale(), parameter.weight_decay()})
    if (!std::isfinite(own) || own < 0)
      return violation(595, "parameter_c9", who + " has a rate or decay of its own of " + std::to_string(own),
                       parameter.name());
  if (parameter.has_part() && !inRange(parameter.part().type(), plan.types_size()))
    return violation(599, "parameter_c7",
                     who + " is part of type " + str(parameter.part().type()) + ", which does not exist",
                     parameter.name());
  const planpb::TensorType &type = plan.types(static_cast<int>(parameter.type()));
  if (parameter.has_cut()) {
    const uint32_t own = parameter.has_part() ? parameter.part().type() : parameter.type();
    ZC_RETURN_IF_ERROR(verifyCut(plan, parameter, plan.types(static_cast<int>(own)), who));
  }
  const uint32_t initial = parameter.has_cut() ? parameter.cut().type() : parameter.type();
  ZC_RETURN_IF_ERROR(verifyInitial(parameter, plan.types(static_cast<int>(initial)), who));
  // parameter_c3
  if (parameter.role() == planpb::BUFFER) {
    if (parameter.bucket() != -1)
      return violation(493, "parameter_c3", who + " is a buffer and member of a bucket", parameter.name());
    return verifyOwnedSlice(plan, parameter.slice(), bytesOf(type), true, who, "parameter_c3", owners);
  }
  if (!inRange(parameter.bucket(), plan.buckets_size()) || parameter.slice() != -1)
    return violation(494, "parameter_c3",
                     who + " has bucket " + std::to_string(parameter.bucket()) + " and slice " +
                         std::to_string(parameter.slice()),
                     parameter.name());
  const planpb::Bucket &bucket = plan.buckets(parameter.bucket());
  // parameter_c4
  if (type.type() != bucket.type() || bucket.trainable() != (parameter.role() == planpb::TRAINABLE))
    return violation(495, "parameter_c4",
                     who + " differs from bucket " + std::to_string(parameter.bucket()) + " in type or role",
                     parameter.name());
  // parameter_c5
  uint64_t elements = elementsOf(type);
  if (parameter.offset() % kAlignment != 0 || elements > bucket.padded() ||
      parameter.offset() > bucket.padded() - elements)
    return violation(496, "parameter_c5",
                     who + " of " + str(elements) + " elements at " + str(parameter.offset()) +
                         " is misaligned or leaves its bucket of " + str(bucket.padded()),
                     parameter.name());
  return {};
}

/// parameter_c6, bucket_c2, and of parameter_c8 the buckets
Status verifyMembers(const planpb::Plan &plan) {
  std::vector<uint64_t> used(static_cast<size_t>(plan.buckets_size()));
  std::vector<const planpb::Parameter *> order;
  for (const planpb::Parameter &parameter : plan.parameters())
    if (parameter.role() != planpb::BUFFER)
      order.push_back(&parameter);
  std::sort(order.begin(), order.end(), [](const planpb::Parameter *a, const planpb::Parameter *b) {
    return std::make_pair(a->bucket(), a->offset()) < std::make_pair(b->bucket(), b->offset());
  });
  const planpb::Parameter *previous = nullptr;
  for (const planpb::Parameter *parameter : order) {
    auto elements = [&](const planpb::Parameter *p) { return elementsOf(plan.types(static_cast<int>(p->type()))); };
    if (previous && previous->bucket() == parameter->bucket() &&
        previous->offset() + elements(previous) > parameter->offset())
      return violation(497, "parameter_c6",
                       "parameters \"" + previous->name() + "\" and \"" + parameter->name() + "\" overlap in bucket " +
                           std::to_string(parameter->bucket()),
                       parameter->name());
    if (previous && previous->bucket() == parameter->bucket() && previous->has_cut() != parameter->has_cut())
      return violation(590, "parameter_c8",
                       "of parameters \"" + previous->name() + "\" and \"" + parameter->name() + "\" in bucket " +
                           std::to_string(parameter->bucket()) + " one is cut over the model axes",
                       parameter->name());
    used[static_cast<size_t>(parameter->bucket())] += elements(parameter);
    previous = parameter;
  }
  for (int i = 0; i < plan.buckets_size(); ++i)
    if (uint64_t sum = used[static_cast<size_t>(i)]; sum != plan.buckets(i).used())
      return violation(498, "bucket_c2",
                       "bucket " + std::to_string(i) + " says " + str(plan.buckets(i).used()) +
                           " used elements, its parameters have " + str(sum));
  return {};
}

/// Does `part` go on where `previous` of the same whole stopped, in the same place of the model's files?
bool continues(const planpb::Parameter &part, const planpb::Parameter &previous, uint64_t elements) {
  bool sameTies = part.tied_size() == previous.tied_size() &&
                  std::equal(part.tied().begin(), part.tied().end(), previous.tied().begin());
  const planpb::Cut &cut = part.cut(), &before = previous.cut();
  bool sameCut = part.has_cut() == previous.has_cut() && cut.type() == before.type() && cut.dim() == before.dim() &&
                 cut.groups() == before.groups();
  uint64_t passed = part.has_cut() ? 0 : previous.source().bytes(); // the source of what is cut is the whole
  bool sameSource = part.has_source() == previous.has_source() &&
                    (!part.has_source() || (part.source().file() == previous.source().file() &&
                                            part.source().type() == previous.source().type() &&
                                            part.source().offset() == previous.source().offset() + passed));
  return part.part().first() == previous.part().first() + elements && part.part().type() == previous.part().type() &&
         part.role() == previous.role() && part.bucket() >= 0 && previous.bucket() >= 0 && sameTies && sameCut &&
         sameSource;
}

/// parameter_c7
Status verifyParts(const planpb::Plan &plan) {
  std::map<std::string, std::vector<const planpb::Parameter *>> wholes;
  std::set<std::string> names;
  for (const planpb::Parameter &parameter : plan.parameters()) {
    if (parameter.has_part())
      wholes[parameter.part().whole()].push_back(&parameter);
    else
      names.insert(parameter.name());
  }
  for (auto &[name, parts] : wholes) {
    std::sort(parts.begin(), parts.end(), [](const planpb::Parameter *a, const planpb::Parameter *b) {
      return a->part().first() < b->part().first();
    });
    const planpb::Parameter *previous = nullptr;
    uint64_t end = 0;
    bool sound =
        inRange(parts[0]->part().type(), plan.types_size()) && parts[0]->part().first() == 0 && !names.count(name);
    for (const planpb::Parameter *part : parts) {
      uint64_t elements = elementsOf(plan.types(static_cast<int>(part->type())));
      sound = sound && (!previous || continues(*part, *previous, end - previous->part().first()));
      sound =
          sound && elements > 0 &&
          plan.types(static_cast<int>(part->type())).type() == plan.types(static_cast<int>(part->part().type())).type();
      end = part->part().first() + elements;
      previous = part;
    }
    if (!sound || end != elementsOf(plan.types(static_cast<int>(parts[0]->part().type()))))
      return violation(554, "parameter_c7",
                       "the " + str(parts.size()) + " parts of parameter \"" + name +
                           "\" are not all of one tensor, in order",
                       name);
  }
  return {};
}

/// What a bucket says of itself goes together.
Status verifyForm(const planpb::Plan &plan, const planpb::Bucket &bucket, const std::string &who) {
  // bucket_c6
  if (!areAxes(plan, bucket.axes()))
    return violation(565, "bucket_c6", who + " is cut over what are no axes of the mesh, in its order");
  // bucket_c1
  const uint64_t cuts = cutsOf(bucket, meshOf(plan)), shard = bucket.padded() / cuts;
  if (!planpb::Type_IsValid(bucket.type()) || bucket.padded() > uint64_t(kMaxElements) || shard == 0 ||
      bucket.padded() % cuts != 0 || shard % kAlignment != 0)
    return violation(499, "bucket_c1",
                     who + " of type " + std::to_string(bucket.type()) + " has " + str(bucket.padded()) +
                         " elements for " + str(cuts) + " shards");
  // bucket_c4
  bool hasState = bucket.master_slice() != -1 || bucket.moment1_slice() != -1 || bucket.moment2_slice() != -1;
  if (bucket.trainable() != (bucket.gradient_slice() != -1) || (!bucket.trainable() && hasState))
    return violation(500, "bucket_c4",
                     who + (bucket.trainable() ? " trains" : " is frozen") +
                         ", which its gradient and optimizer slices contradict");
  // bucket_c7
  const bool isHalf = bucket.type() == planpb::BF16 || bucket.type() == planpb::F16;
  if (bucket.has_gradient_type() && (!bucket.trainable() || !isHalf || bucket.gradient_type() != planpb::F32))
    return violation(592, "bucket_c7",
                     who + " of " + planpb::Type_Name(bucket.type()) + " keeps gradients in type " +
                         std::to_string(bucket.gradient_type()));
  // bucket_c4
  if (bucket.residual_slices_size() > 2 || (!bucket.trainable() && bucket.residual_slices_size() > 0))
    return violation(547, "bucket_c4",
                     who + " has " + str(static_cast<uint64_t>(bucket.residual_slices_size())) +
                         " residuals; one that trains has at most two");
  return {};
}

/// Its slices are its own, and as large as what they hold.
Status verifyContents(const planpb::Plan &plan, const planpb::Bucket &bucket, const std::string &who, Owners &owners) {
  const Mesh mesh = meshOf(plan);
  const uint64_t size = static_cast<uint64_t>(sizeOf(static_cast<DType>(bucket.type())));
  auto elements = [&](bool sharded) { return sharded ? bucket.padded() / cutsOf(bucket, mesh) : bucket.padded(); };
  // bucket_c3
  ZC_RETURN_IF_ERROR(verifyOwnedSlice(plan, bucket.parameter_slice(), elements(bucket.parameters_sharded()) * size,
                                      true, who + " (parameters)", "bucket_c3", owners));
  if (bucket.trainable())
    ZC_RETURN_IF_ERROR(verifyOwnedSlice(plan, bucket.gradient_slice(),
                                        elements(bucket.gradients_sharded()) *
                                            static_cast<uint64_t>(sizeOf(static_cast<DType>(gradientTypeOf(bucket)))),
                                        false, who + " (gradients)", "bucket_c3", owners));
  for (int32_t slice : {bucket.master_slice(), bucket.moment1_slice(), bucket.moment2_slice()})
    if (slice != -1)
      ZC_RETURN_IF_ERROR(verifyOwnedSlice(plan, slice, elements(bucket.optimizer_sharded()) * 4, true,
                                          who + " (optimizer)", "bucket_c3", owners));
  const uint64_t inNode = static_cast<uint64_t>(mesh.sizeOnNode(axesOf(bucket)));
  for (int i = 0; i < bucket.residual_slices_size(); ++i)
    ZC_RETURN_IF_ERROR(verifyOwnedSlice(plan, bucket.residual_slices(i), bucket.padded() / (i == 0 ? 1 : inNode) * size,
                                        true, who + " (residual)", "bucket_c3", owners));
  // bucket_c4
  if (bucket.type() == planpb::F32 && bucket.master_slice() != -1 && !plan.has_delay() &&
      tierOf(plan, static_cast<uint32_t>(bucket.master_slice())) ==
          tierOf(plan, static_cast<uint32_t>(bucket.parameter_slice())))
    return violation(541, "bucket_c4",
                     who + " of f32 has master weights in slice \"" + plan.slices(bucket.master_slice()).name() +
                         "\", on the tier of its parameters");
  return {};
}

Status verifyBucket(const planpb::Plan &plan, int index, Owners &owners) {
  const planpb::Bucket &bucket = plan.buckets(index);
  const std::string who = "bucket " + std::to_string(index);
  ZC_RETURN_IF_ERROR(verifyForm(plan, bucket, who));
  return verifyContents(plan, bucket, who, owners);
}

} // namespace

Status verifyModelState(const planpb::Plan &plan) {
  Owners owners;
  for (int i = 0; i < plan.buckets_size(); ++i)
    ZC_RETURN_IF_ERROR(verifyBucket(plan, i, owners));
  for (const planpb::Parameter &parameter : plan.parameters())
    ZC_RETURN_IF_ERROR(verifyParameter(plan, parameter, owners));
  ZC_RETURN_IF_ERROR(verifyMembers(plan));
  return verifyParts(plan);
}

} // namespace zc::verify
