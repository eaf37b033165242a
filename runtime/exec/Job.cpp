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

Status runJob(RankGroup &ranks, const RankMain &main) {
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int i = 0; i < ranks.count(); ++i)
    ends.push_back(ranks.communicator(ranks.firstRank() + i));
  std::vector<Status> results(ends.size());
  auto runRank = [&](size_t i) {
    results[i] = runMain(main, *ends[i]);
    if (!results[i].ok())
      ends[i]->abort(results[i].error());
    ends[i].reset(); // whoever still waits for this rank learns that it is gone
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ends.size(); ++i)
    threads.emplace_back(runRank, i);
  for (std::thread &thread : threads)
    thread.join();
  // The group knows who was first; the others' errors are its echo.
  if (std::optional<RankGroup::Failure> failure = ranks.failure()) {
    if (ranks.mesh().worldSize > 1)
      failure->error.note += (failure->error.note.empty() ? "" : "; ") + ("on rank " + std::to_string(failure->rank));
    return failure->error;
  }
  for (Status &result : results)
    if (!result.ok())
      return result;
  return {};
}

Status runJob(int worldSize, int ranksPerNode, const RankMain &main) {
  return runJob(*makeInprocGroup({worldSize, ranksPerNode}), main);
}

} // namespace zc
