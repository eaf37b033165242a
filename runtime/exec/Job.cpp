#include "runtime/exec/Job.h"

#include "runtime/comm/Inproc.h"

#include <exception>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace zc {

namespace {

/// Nothing may leave a rank's thread; what arrives here is mostly memory that was not to be had.
Status runMain(const RankMain &main, Communicator &communicator) {
  try {
    return main(communicator);
  } catch (const std::bad_alloc &) {
    return makeError(Code::budget, 655, "out of memory on rank " + std::to_string(communicator.rank()));
  } catch (const std::exception &exception) {
    return makeError(Code::internal, 656, std::string("a rank threw: ") + exception.what());
  }
}

} // namespace

Status runJob(int worldSize, int ranksPerNode, const RankMain &main) {
  std::unique_ptr<InprocGroup> group = InprocGroup::create(worldSize, ranksPerNode);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int rank = 0; rank < worldSize; ++rank)
    ends.push_back(group->communicator(rank));
  std::vector<Status> results(static_cast<size_t>(worldSize));
  auto runRank = [&](size_t rank) {
    results[rank] = runMain(main, *ends[rank]);
    if (!results[rank].ok())
      ends[rank]->abort(results[rank].error());
    ends[rank].reset(); // whoever still waits for this rank learns that it is gone
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ends.size(); ++rank)
    threads.emplace_back(runRank, rank);
  for (std::thread &thread : threads)
    thread.join();
  // The group knows who was first; the others' errors are its echo.
  if (std::optional<InprocGroup::Failure> failure = group->failure()) {
    if (worldSize > 1)
      failure->error.note += (failure->error.note.empty() ? "" : "; ") + ("on rank " + std::to_string(failure->rank));
    return failure->error;
  }
  for (Status &result : results)
    if (!result.ok())
      return result;
  return {};
}

} // namespace zc
