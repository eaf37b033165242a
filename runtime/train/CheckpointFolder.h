//===- CheckpointFolder.h - the checkpoints that lie in a run's folder --------------------------===//
//
// step-K, "final" and "best" are whole: they come into their place by one rename, or by one exchange with the one that
// was there, and leave it by a rename as well. What stands beside them by other names is being made or on its way out:
//   NAME.tmp        being written; or, for a moment, the one that NAME has replaced
//   NAME.old        the one that NAME replaces, where the file system cannot exchange
//   NAME.removed    being removed
//   NAME.abandoned  set aside, because the run went back to an earlier one, or because files that no run wrote were
//                   in what was to be removed; nobody removes it
// A run that was killed between any two steps is put in order by the next one: what is whole and newer is put in place,
// what was replaced is removed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/train/Manifest.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace zc::train {

/// Whether a run's file of this name is a checkpoint, whole, set aside or not; and whether it is one that is being made
/// or on its way out, which the next run puts in order.
bool isCheckpoint(const std::string &file);
bool isPassing(const std::string &file);

/// The folders step-K in `out`, newest first, whole or not. A folder that is not there has none. Errors: io.
Result<std::vector<std::string>> listSteps(const std::string &out);
/// The same with "final" and "best" where their manifests put them; first, where those cannot be read. Errors: io.
Result<std::vector<std::string>> listCheckpoints(const std::string &out);

/// The checkpoints of a run that may write there.
class CheckpointFolder {
public:
  /// `told`: what people are to know of what was found or set aside.
  explicit CheckpointFolder(
      std::string out = {}, std::function<void(const std::string &)> told = [](const std::string &) {})
      : out(std::move(out)), told(std::move(told)) {}
  const std::string &name() const { return out; }

  /// Puts in order what a killed run left. Errors: io.
  Status recover();
  /// An empty `name`.tmp. Errors: io.
  Status begin(const std::string &name);
  /// Takes `name`.tmp away again, if it can.
  void discard(const std::string &name);
  /// `name`.tmp, whole and on disk, becomes `name`; what was there is removed, if it can be. Errors: io; then `name` is
  /// what it was, or the new one.
  Status putInPlace(const std::string &name);
  /// Removes step-K folders that are older than the newest `keep` which verify, but not `saved`, the one just written,
  /// which is older than one that a run which goes on has passed over. Errors: io, corrupt (a whole one could not be
  /// told from a damaged one).
  Status prune(int64_t keep, const std::string &saved);
  /// Sets aside every checkpoint after `step`. Errors: io.
  Status abandonAfter(int64_t step);
  /// All checkpoints, whole or not, and what is beside them, in the order in which clear() removes them. Errors: io;
  /// usage, where one of them holds files that no run wrote.
  Result<std::vector<std::string>> removable() const;
  /// Removes these, the newest last: until then a run that is killed leaves one to go on from. Errors: those
  /// of removable(), before anything is removed; io.
  Status clear();
  /// A free name in the folder for what is set aside of `name`.
  std::string aside(const std::string &name) const;
  /// A checkpoint is known to be whole: found so, or written just now.
  void trust(const std::string &folder) { trusted.insert(folder); }

private:
  /// Whether a killed save or replacement has left the newest state under another name.
  Status finish(const std::string &name);
  /// NAME.tmp takes the place of `name` by two renames, where the file system cannot exchange. In between, recover()
  /// knows what to do.
  Status replace(const std::string &name);
  Status remove(const std::string &name);
  /// Removes `name``suffix`; what holds files that no run wrote is set aside instead.
  Status retire(const std::string &name, const char *suffix);
  std::string at(const std::string &name) const { return out + "/" + name; }

  std::string out;
  std::function<void(const std::string &)> told;
  std::set<std::string> trusted;
};

} // namespace zc::train
