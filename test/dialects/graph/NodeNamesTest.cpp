//===- NodeNamesTest.cpp - locations made beside MLIR's table are what MLIR takes them for -----===//

#include "dialects/graph/NodeNames.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/Builders.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace zc::graph;

namespace {

struct NodeNamesTest : testing::Test {
  NodeNamesTest() { context.loadDialect<GraphDialect>(); }
  Location make(const Twine &name) { return NodeNames::of(&context).makeLocation(name); }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

TEST_F(NodeNamesTest, MlirReadsWhatIsKept) {
  Location made = make("/model/Neg");
  auto opaque = dyn_cast<OpaqueLoc>(made);
  ASSERT_TRUE(opaque);
  // One that MLIR made of the same is equal in all that it shows.
  auto other = OpaqueLoc::get(opaque.getUnderlyingLocation(), opaque.getUnderlyingTypeID(), UnknownLoc::get(&context));
  EXPECT_EQ(other.getUnderlyingLocation(), opaque.getUnderlyingLocation());
  EXPECT_EQ(other.getUnderlyingTypeID(), opaque.getUnderlyingTypeID());
  EXPECT_EQ(other.getFallbackLocation(), opaque.getFallbackLocation());
  EXPECT_EQ(&other.getAbstractAttribute(), &opaque.getAbstractAttribute());
  EXPECT_EQ(nodeOf(other), "/model/Neg");
  EXPECT_EQ(made.getContext(), &context);
  std::vector<LocationAttr> walked;
  made->walk([&](Location part) { return walked.push_back(part), WalkResult::advance(); });
  EXPECT_EQ(walked, (std::vector<LocationAttr>{made, UnknownLoc::get(&context)}));
}

TEST_F(NodeNamesTest, TwoOfOneNameAreTwo) {
  Location first = make("a"), second = make("a");
  EXPECT_NE(first, second);
  EXPECT_EQ(nodeOf(first), nodeOf(second));
}

TEST_F(NodeNamesTest, NodesOfALocationAreInOrderAndEachOnce) {
  Location a = make("a"), b = make("b"), again = make("a"), none = UnknownLoc::get(&context);
  Location named = NameLoc::get(StringAttr::get(&context, "c"));
  Location inner = FusedLoc::get(&context, {b, again, none});
  Location call = CallSiteLoc::get(named, inner);
  EXPECT_EQ(nodesOf(FusedLoc::get(&context, {a, inner, named})).takeVector(),
            (SmallVector<StringRef, 0>{"a", "b", "c"}));
  EXPECT_EQ(nodesOf(call).takeVector(), (SmallVector<StringRef, 0>{"c", "b", "a"}));
  EXPECT_EQ(nodesOf(b).takeVector(), (SmallVector<StringRef, 0>{"b"}));
  EXPECT_TRUE(nodesOf(none).empty());
}

TEST_F(NodeNamesTest, SpelledOutTheyAreNames) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(FusedLoc::get(&context, {make("a"), make("b")}));
  spellLocations(*module);
  auto name = [&](StringRef text) -> Location { return NameLoc::get(StringAttr::get(&context, text)); };
  EXPECT_EQ((*module)->getLoc(), Location(FusedLoc::get(&context, {name("a"), name("b")})));
}

} // namespace
