//===- ListScheduler.cpp - list scheduling over queues -----------------------------------===//

#include "compiler/schedule/ScheduleProblem.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace zc;

namespace {
/// What one queue still has to do.
struct QueueState {
  double freeAt = 0;
  std::set<std::pair<bool, size_t>> ready; ///< dependences ended by `freeAt`: can it wait, and its place in the problem
  std::set<std::pair<double, size_t>> soon; ///< dependences scheduled, ending at .first
  std::vector<size_t> inOrder;              ///< for the in-order queue: what is left, reversed

  /// Moves what has become ready by `time` from soon to ready.
  void advance(double time, const ScheduleProblem &problem) {
    while (!soon.empty() && soon.begin()->first <= time) {
      size_t index = soon.begin()->second;
      ready.emplace(!problem.operations[index].isUrgent, index);
      soon.erase(soon.begin());
    }
  }
};

class ListScheduler {
public:
  ListScheduler(ScheduleProblem &problem, unsigned inOrderQueue)
      : problem(problem), inOrderQueue(inOrderQueue), queues(problem.numQueues), missing(problem.operations.size()),
        readyAt(problem.operations.size()), firstUser(problem.operations.size() + 1) {}

  void run() {
    const size_t count = problem.operations.size();
    problem.starts.assign(count, 0);
    for (size_t i = count; i-- > 0;)
      if (problem.operations[i].queue == inOrderQueue)
        queues[inOrderQueue].inOrder.push_back(i);
    findUsers();
    for (size_t i = 0; i < count; ++i) {
      missing[i] = problem.operations[i].after.size();
      if (missing[i] == 0)
        await(i);
    }
    for (size_t done = 0; done < count; ++done)
      start(next());
  }

private:
  /// Who comes after each operation, one after the other.
  void findUsers() {
    for (const ScheduledOperation &operation : problem.operations)
      for (size_t p : operation.after)
        ++firstUser[p + 1];
    std::partial_sum(firstUser.begin(), firstUser.end(), firstUser.begin());
    users.resize(firstUser.back());
    std::vector<size_t> next(firstUser.begin(), firstUser.end() - 1);
    for (size_t i = 0; i < problem.operations.size(); ++i)
      for (size_t p : problem.operations[i].after)
        users[next[p]++] = i;
  }

  /// What `index` depends on is scheduled. The in-order queue knows its next one without a search.
  void await(size_t index) {
    if (unsigned queue = problem.operations[index].queue; queue != inOrderQueue)
      queues[queue].soon.insert({readyAt[index], index});
  }

  /// The operation queue `q` would start next and when; false if it has none.
  bool candidate(unsigned q, double &time, size_t &index) {
    QueueState &state = queues[q];
    if (q == inOrderQueue) {
      if (state.inOrder.empty() || missing[state.inOrder.back()] != 0)
        return false;
      index = state.inOrder.back();
      time = std::max(state.freeAt, readyAt[index]);
      return true;
    }
    state.advance(state.freeAt, problem);
    if (state.ready.empty()) {
      if (state.soon.empty())
        return false;
      state.advance(state.soon.begin()->first, problem);
    }
    index = state.ready.begin()->second;
    time = std::max(state.freeAt, readyAt[index]);
    return true;
  }

  /// The earliest start over all queues: nothing scheduled later can become ready before it.
  size_t next() {
    size_t best = problem.operations.size();
    double bestTime = 0;
    for (unsigned q = 0; q < problem.numQueues; ++q) {
      double time;
      size_t index;
      if (candidate(q, time, index) && (best == problem.operations.size() || time < bestTime)) {
        best = index;
        bestTime = time;
      }
    }
    return best;
  }

  void start(size_t index) {
    const ScheduledOperation &operation = problem.operations[index];
    QueueState &state = queues[operation.queue];
    double time = std::max(state.freeAt, readyAt[index]);
    problem.starts[index] = time;
    state.freeAt = time + operation.seconds;
    if (operation.queue == inOrderQueue) {
      state.inOrder.pop_back();
    } else {
      state.ready.erase({!operation.isUrgent, index});
      state.soon.erase({readyAt[index], index});
    }
    for (size_t at = firstUser[index]; at < firstUser[index + 1]; ++at) {
      size_t user = users[at];
      readyAt[user] = std::max(readyAt[user], state.freeAt);
      if (--missing[user] == 0)
        await(user);
    }
  }

  ScheduleProblem &problem;
  unsigned inOrderQueue;
  std::vector<QueueState> queues;
  std::vector<size_t> missing;
  std::vector<double> readyAt;
  std::vector<size_t> firstUser; ///< place in `users` of each operation's, and the end
  std::vector<size_t> users;
};
} // namespace

void zc::scheduleAsList(ScheduleProblem &problem, unsigned inOrderQueue) { ListScheduler(problem, inOrderQueue).run(); }
