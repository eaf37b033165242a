#include "runtime/train/Agreement.h"

#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Walk.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace zc::train {

namespace {

/// FNV-1a, 64 bits.
class Hash {
public:
  void add(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; ++i)
      value = (value ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100000001b3u;
  }
  void add(uint64_t number) { add(&number, sizeof number); }
  void add(const std::string &text) {
    add(text.size());
    add(text.data(), text.size());
  }
  uint64_t value = 0xcbf29ce484222325u;
};

/// An error on its way to the other ranks: longer texts lose their ends.
struct Letter {
  int32_t code = 0; ///< 0: none
  int32_t number = 0;
  char message[2048] = {}, where[1024] = {}, note[2048] = {}, help[1024] = {};
};

template <size_t N> void write(char (&to)[N], const std::string &from) {
  std::memcpy(to, from.data(), std::min(from.size(), N - 1));
}

template <size_t N> std::string read(const char (&from)[N]) { return std::string(from, ::strnlen(from, N)); }

struct Ready {
  Identity identity;
  int32_t code = 0;
};

struct Part {
  const char *name;
  uint64_t Identity::*number;
};
constexpr Part kParts[] = {{"another plan", &Identity::plan},
                           {"another world size", &Identity::world},
                           {"other ranks per node", &Identity::perNode},
                           {"another order of collectives", &Identity::schedule},
                           {"other data", &Identity::data},
                           {"other options", &Identity::options},
                           {"other weights", &Identity::weights},
                           {"another table of products (--products)", &Identity::products}};

/// Who differs from rank 0, and in what.
std::optional<Error> compare(const std::vector<Ready> &all) {
  for (const Part &part : kParts) {
    std::string others;
    int count = 0;
    for (size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank].identity.*part.number != all[0].identity.*part.number && ++count <= 8)
        others += (others.empty() ? "" : ", ") + std::to_string(rank);
    if (count == 0)
      continue;
    Error error = makeError(Code::mismatch, 945,
                            std::string(count == 1 ? "rank " : "ranks ") + others + (count > 8 ? ", ..." : "") +
                                (count == 1 ? " has " : " have ") + part.name + " than rank 0",
                            "", "start all ranks with the same plan, data and flags");
    return error;
  }
  return std::nullopt;
}

} // namespace

uint64_t collectivesOf(const planpb::Plan &plan) {
  Hash hash;
  for (uint32_t section : {0u, 1u, kEvalSection})
    for (const planpb::Step &step : sectionOf(plan, section).steps()) {
      if (step.queue() != planpb::COMM)
        continue;
      hash.add(plan.strings(int(step.kernel())));
      for (const planpb::Operand &operand : step.operands()) {
        const planpb::TensorType &type = plan.types(int(operand.type()));
        hash.add(uint64_t(type.type()));
        for (int64_t dim : type.dims())
          hash.add(uint64_t(dim));
      }
      hash.add(axesOf(step).asBits());
      for (const planpb::Attribute &attribute : step.attributes()) {
        hash.add(plan.strings(int(attribute.name())));
        hash.add(attribute.text());
      }
    }
  return hash.value;
}

uint64_t optionsOf(const RunOptions &options, uint64_t seed, int64_t steps) {
  Hash hash;
  for (uint64_t number : {seed, uint64_t(steps), uint64_t(options.warmup.value_or(-1)), uint64_t(options.saveEvery),
                          uint64_t(options.keep), uint64_t(options.outlivesFailedSave), uint64_t(options.data.shuffle),
                          uint64_t(options.resume.empty()), uint64_t(options.overwrite), uint64_t(options.dataChanged),
                          uint64_t(options.evaluates()), uint64_t(options.evalEvery), uint64_t(options.evalSteps),
                          uint64_t(options.keepBest), uint64_t(options.earlyStop), uint64_t(options.savesFinal)})
    hash.add(number);
  hash.add(options.schedule);
  double lr = options.lr.value_or(-1);
  hash.add(&lr, sizeof lr);
  return hash.value;
}

Result<uint64_t> dataOf(const data::InputSource &source, const data::BatchSpec &batch, int64_t steps) {
  Hash hash;
  hash.add(uint64_t(source.samples()));
  std::vector<char> rows;
  for (int64_t step : {int64_t(0), (steps - 1) / 2, steps - 1})
    for (size_t input = 0; input < batch.inputs.size(); ++input) {
      if (!batch.inputs[input].used)
        continue;
      rows.resize(size_t(batch.inputs[input].type.numBytes()));
      ZC_RETURN_IF_ERROR(source.load(input, step, 0, 0, rows.data()));
      hash.add(rows.data(), rows.size());
    }
  return hash.value;
}

Status checkMachines(const RankGroup &ranks, std::string &note) {
  const std::vector<int> machines = ranks.machines();
  const Mesh &mesh = ranks.mesh();
  if (machines.empty())
    return Status::success();
  const AxisSet within = ~mesh.nodeAxes();
  const bool isInTurns = mesh.rankOf(within, 0, mesh.ranksPerNode() - 1) >= mesh.ranksPerNode(); // node not outermost
  int fewest = mesh.worldSize();
  bool shared = false;
  for (int rank = 0; rank < mesh.worldSize(); ++rank) {
    int first = machines[size_t(rank)];
    fewest = std::min(fewest, int(std::count(machines.begin(), machines.end(), first)));
    int begin = mesh.rankOf(within, mesh.groupOf(within, rank), 0);
    if (machines[size_t(begin)] != first)
      return makeError(Code::mismatch, 946,
                       "the plan has ranks " + std::to_string(begin) + " and " + std::to_string(rank) +
                           " on one node, but they run on different machines",
                       "",
                       isInTurns ? "zero-compile --mesh with node first, or place ranks as the plan's mesh has them"
                                 : "zero-compile --ranks-per-node " + std::to_string(fewest) + ", or start " +
                                       std::to_string(mesh.ranksPerNode()) + " ranks on each machine");
    shared |= mesh.nodeOf(first) != mesh.nodeOf(rank);
  }
  if (shared)
    note = "several nodes of the plan run on one machine: what counts as sent between nodes does not leave it";
  return Status::success();
}

Result<std::optional<Error>> agree(Communicator &communicator, const Identity &mine, const Status &prepared) {
  Ready ready;
  ready.identity = mine;
  ready.code = prepared.ok() ? 0 : int32_t(prepared.error().code);
  std::vector<Ready> all(size_t(communicator.worldSize()));
  ZC_RETURN_IF_ERROR(communicator.allGather({&ready, all.data(), sizeof ready}));
  auto failed = std::find_if(all.begin(), all.end(), [](const Ready &each) { return each.code != 0; });
  if (failed == all.end())
    return compare(all);
  int root = int(failed - all.begin());
  Letter letter;
  if (communicator.rank() == root) {
    const Error &error = prepared.error();
    letter.code = int32_t(error.code);
    letter.number = error.number;
    write(letter.message, error.message);
    write(letter.where, error.where);
    write(letter.note, error.note);
    write(letter.help, error.help);
  }
  ZC_RETURN_IF_ERROR(communicator.broadcast({&letter, sizeof letter, root}));
  Error error =
      makeError(Code(letter.code), letter.number, read(letter.message), read(letter.where), read(letter.help));
  error.note = read(letter.note);
  if (root != 0)
    error.note += (error.note.empty() ? "on rank " : "; on rank ") + std::to_string(root);
  return std::optional<Error>(std::move(error));
}

Result<std::vector<std::string>> firstToTell(Communicator &communicator, const std::vector<std::string> &texts) {
  const auto world = size_t(communicator.worldSize()), mine = size_t(communicator.rank());
  uint64_t count = texts.size();
  std::vector<uint64_t> counts(world);
  ZC_RETURN_IF_ERROR(communicator.allGather({&count, counts.data(), sizeof count, TrafficClass::none, AxisSet::all()}));
  const size_t most = *std::max_element(counts.begin(), counts.end());
  std::vector<uint64_t> own(most), all(most * world);
  for (size_t i = 0; i < texts.size(); ++i) {
    Hash hash;
    hash.add(texts[i]);
    own[i] = hash.value;
  }
  if (most > 0)
    ZC_RETURN_IF_ERROR(
        communicator.allGather({own.data(), all.data(), most * sizeof(uint64_t), TrafficClass::none, AxisSet::all()}));
  std::set<uint64_t> told;
  for (size_t rank = 0; rank < mine; ++rank)
    told.insert(all.begin() + ptrdiff_t(rank * most), all.begin() + ptrdiff_t(rank * most + counts[rank]));
  std::vector<std::string> first;
  for (size_t i = 0; i < texts.size(); ++i)
    if (told.insert(own[i]).second)
      first.push_back(texts[i]);
  return first;
}

} // namespace zc::train
