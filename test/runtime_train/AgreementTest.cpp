#include "test/runtime_train/TempFolder.h"

#include "runtime/comm/Inproc.h"
#include "runtime/exec/Job.h"
#include "runtime/train/Agreement.h"

#include <gtest/gtest.h>

using namespace zc;
using namespace zc::train;

namespace {

/// What each rank is told.
std::vector<std::optional<Error>> agreed(const std::vector<Identity> &identities, const std::vector<Status> &prepared) {
  std::vector<std::optional<Error>> told(identities.size());
  Status status = runJob(Mesh::ofNodes(int(identities.size()), 1), [&](Communicator &communicator) -> Status {
    size_t rank = size_t(communicator.rank());
    auto refusal = agree(communicator, identities[rank], prepared[rank]);
    if (!refusal)
      return refusal.error();
    told[rank] = std::move(*refusal);
    return Status::success();
  });
  EXPECT_TRUE(status.ok());
  return told;
}

/// A group that says where its ranks are.
class Placed : public RankGroup {
public:
  Placed(Mesh mesh, std::vector<int> machines) : place(mesh), seen(std::move(machines)) {}
  const Mesh &mesh() const override { return place; }
  int firstRank() const override { return 0; }
  int count() const override { return 1; }
  std::unique_ptr<Communicator> communicator(int) override { return nullptr; }
  std::optional<Failure> failure() const override { return std::nullopt; }
  std::vector<int> machines() const override { return seen; }
  void kill(int) override {}

private:
  Mesh place;
  std::vector<int> seen;
};

} // namespace

TEST(Agreement, NothingIsSaidWhenAllAreAlike) {
  for (const auto &told : agreed(std::vector<Identity>(3, {1, 3, 3, 4, 5, 6, 7, 8}), std::vector<Status>(3)))
    EXPECT_FALSE(told);
}

TEST(Agreement, NamesWhoDiffersAndInWhat) {
  std::vector<Identity> identities(4, {1, 4, 4, 4, 5, 6, 7, 8});
  identities[2].data = 7;
  for (const auto &told : agreed(identities, std::vector<Status>(4))) {
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code, Code::mismatch);
    EXPECT_EQ(told->message, "rank 2 has other data than rank 0");
  }
  std::vector<Identity> tuned(2, {1, 4, 4, 4, 5, 6, 7, 8});
  tuned[1].products = 0;
  for (const auto &told : agreed(tuned, std::vector<Status>(2))) {
    ASSERT_TRUE(told);
    EXPECT_EQ(told->message, "rank 1 has another table of products (--products) than rank 0");
  }
  identities[1].plan = identities[3].plan = 9; // comes before the data
  for (const auto &told : agreed(identities, std::vector<Status>(4)))
    EXPECT_EQ(told->message, "ranks 1, 3 have another plan than rank 0");
}

TEST(Agreement, TheLowestRanksErrorIsEverybodys) {
  std::vector<Status> prepared(3);
  prepared[1] = makeError(Code::badInput, 123, "no such file", "data.npy", "look again");
  prepared[2] = makeError(Code::io, 124, "something else");
  for (const auto &told : agreed(std::vector<Identity>(3), prepared)) {
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code, Code::badInput);
    EXPECT_EQ(told->number, 123);
    EXPECT_EQ(told->message, "no such file");
    EXPECT_EQ(told->where, "data.npy");
    EXPECT_EQ(told->help, "look again");
    EXPECT_EQ(told->note, "on rank 1");
  }
}

TEST(Agreement, LongTextsLoseTheirEnds) {
  std::vector<Status> prepared(2);
  prepared[0] = makeError(Code::other, 1, std::string(100000, 'x'));
  auto told = agreed(std::vector<Identity>(2), prepared);
  EXPECT_GT(told[1]->message.size(), 1000u);
  EXPECT_EQ(told[1]->message.find_first_not_of('x'), std::string::npos);
}

TEST(Agreement, WhatIsSoOnSeveralRanksIsToldByOne) {
  const std::vector<std::vector<std::string>> has = {{"a", "b", "a"}, {"b", "c"}, {}, {"d", "c", "b", "e"}},
                                              tell = {{"a", "b"}, {"c"}, {}, {"d", "e"}};
  for (const auto &texts : {has, std::vector<std::vector<std::string>>(4)}) {
    std::vector<std::vector<std::string>> told(texts.size());
    Status status = runJob(Mesh::ofNodes(int(texts.size()), 1), [&](Communicator &communicator) -> Status {
      const auto rank = size_t(communicator.rank());
      auto first = firstToTell(communicator, texts[rank]);
      ZC_RETURN_IF_ERROR(first.status());
      told[rank] = std::move(*first);
      return Status::success();
    });
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(told, texts == has ? tell : texts);
  }
}

TEST(Agreement, NodesOfThePlanAreNotSpreadOverMachines) {
  std::string note;
  EXPECT_TRUE(checkMachines(Placed(Mesh::ofNodes(4, 2), {}), note).ok()) << "threads of one process";
  EXPECT_TRUE(checkMachines(Placed(Mesh::ofNodes(4, 2), {0, 0, 2, 2}), note).ok());
  EXPECT_EQ(note, "");
  EXPECT_TRUE(checkMachines(Placed(Mesh::ofNodes(4, 2), {0, 0, 0, 0}), note).ok());
  EXPECT_NE(note, "") << "two nodes on one machine are worth a word";
  for (const std::vector<int> &spread : {std::vector<int>{0, 1, 1, 3}, {0, 1, 0, 1}, {0, 0, 0, 3}}) {
    Status status = checkMachines(Placed(Mesh::ofNodes(4, 2), spread), note);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::mismatch);
  }
  EXPECT_NE(checkMachines(Placed(Mesh::ofNodes(4, 4), {0, 0, 2, 2}), note).error().help.find("--ranks-per-node 2"),
            std::string::npos);
}

TEST(Agreement, NodesMayHaveRanksInTurns) {
  std::string note;
  const Mesh mesh({{"model", 2, false}, {"node", 2}, {"local", 1}});
  EXPECT_TRUE(checkMachines(Placed(mesh, {0, 1, 0, 1}), note).ok());
  Status status = checkMachines(Placed(mesh, {0, 0, 2, 2}), note);
  EXPECT_EQ(status.error().code, Code::mismatch);
  EXPECT_NE(status.error().help.find("--mesh with node first"), std::string::npos) << status.error().help;
}
