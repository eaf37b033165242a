//===- Agreement.h - what all ranks must have alike before the first step -------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"
#include "runtime/data/InputSource.h"
#include "runtime/plan/plan.pb.h"
#include "runtime/train/Options.h"

namespace zc::train {

/// Numbers that differ when ranks are about to do different things.
struct Identity {
  uint64_t plan = 0;     ///< planHash
  uint64_t world = 0;    ///< ranks
  uint64_t perNode = 0;  ///< ranks per node
  uint64_t data = 0;     ///< samples and the rows of the first, middle and last step
  uint64_t schedule = 0; ///< the collectives in their order, with sizes and groups
  uint64_t options = 0;  ///< what of the command line all ranks must share
  uint64_t weights = 0;  ///< InitialValues::fingerprint, once they are there
  uint64_t products = 0; ///< the table of products: what all ranks of the model axis compute must have equal bits
};

uint64_t collectivesOf(const planpb::Plan &plan);
uint64_t optionsOf(const RunOptions &options, uint64_t seed, int64_t steps);
/// Errors: those of loading.
Result<uint64_t> dataOf(const data::InputSource &source, const data::BatchSpec &batch, int64_t steps);

/// The nodes of the plan against the machines that the transport sees. Error: mismatch, when a node of the plan is
/// spread over machines. `note` is set when machines hold several nodes.
Status checkMachines(const RankGroup &ranks, std::string &note);

/// Every rank calls this with how its preparations went. Returns the same on all of them: nothing when all are ready
/// and alike; else why the run cannot begin: the error of the lowest rank that has one, or mismatch naming who differs
/// from rank 0. The Status is the collectives' own.
Result<std::optional<Error>> agree(Communicator &communicator, const Identity &mine, const Status &prepared);

/// Every rank calls this with what it has to tell. Returns those of the texts that no lower rank has, each once: what
/// is so on all ranks is told by one.
Result<std::vector<std::string>> firstToTell(Communicator &communicator, const std::vector<std::string> &texts);

} // namespace zc::train
