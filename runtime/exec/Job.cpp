#include "runtime/exec/Job.h"

#include "base/BlockedSignals.h"
#include "base/Failpoint.h"
#include "base/Limits.h"
#include "base/SignalStack.h"
#include "runtime/comm/Inproc.h"

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace zc {

namespace {

Error noThread(int rank, const std::exception &error) {
  return makeError(Code::budget, 657, "cannot start a thread of rank " + std::to_string(rank) + ": " + error.what(), {},
                   "see ulimit -u and ulimit -v, or start fewer ranks on this machine");
}

/// How much was asked for nobody says; how much there is may be found out with the little that is left.
Error noMemory(int rank) {
  Error error = makeError(Code::budget, 655, "out of memory on rank " + std::to_string(rank));
  try {
    error.note = memoryText();
  } catch (const std::bad_alloc &) {
  }
  return error;
}

/// Nothing may leave a rank's thread; what arrives here is mostly memory that was not to be had.
Status runMain(const RankMain &main, Communicator &communicator) {
  try {
    return main(communicator);
  } catch (const std::bad_alloc &) {
    return noMemory(communicator.rank());
  } catch (const std::exception &exception) {
    auto *error = dynamic_cast<const std::system_error *>(&exception);
    if (error && error->code() == std::errc::resource_unavailable_try_again)
      return noThread(communicator.rank(), *error);
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
    SignalStack stack;
    setFaultContext(ends[i]->rank(), 0);
    results[i] = runMain(main, *ends[i]);
    if (!results[i].ok())
      ends[i]->abort(results[i].error());
    ends[i].reset(); // whoever still waits for this rank learns that it is gone
  };
  std::vector<std::thread> threads;
  threads.reserve(ends.size()); // what is thrown while some run would end the process
  auto begin = [&](size_t i) {
    BlockedSignals blocked; // which it inherits, and all threads that it begins
    threads.emplace_back(runRank, i);
  };
  for (size_t i = 0; i < ends.size(); ++i)
    try {
      begin(i);
    } catch (const std::exception &error) { // no thread, or no memory for one
      results[i] = noThread(ends[i]->rank(), error);
      ends[i]->abort(results[i].error());
      for (; i < ends.size(); ++i)
        ends[i].reset(); // the others learn that these never came
    }
  for (std::thread &thread : threads)
    thread.join();
  // The group knows who was first; the others' errors are its echo.
  if (std::optional<RankGroup::Failure> failure = ranks.failure()) {
    if (ranks.mesh().worldSize() > 1)
      failure->error.note += (failure->error.note.empty() ? "" : "; ") + ("on rank " + std::to_string(failure->rank));
    return failure->error;
  }
  for (Status &result : results)
    if (!result.ok())
      return result;
  return {};
}

Status runJob(const Mesh &mesh, const RankMain &main) { return runJob(*makeInprocGroup(mesh), main); }

} // namespace zc
