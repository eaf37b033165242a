//===- ExternalFiles.cpp - the files that a plan's weights lie in -------------------------===//

#include "compiler/emit/ExternalFiles.h"
#include "runtime/io/File.h"
#include "runtime/io/Folder.h"

#include <set>
#include <string>

using namespace zc;

Status zc::recordExternalFiles(planpb::Plan &plan) {
  std::set<std::string> names;
  for (const planpb::Parameter &parameter : plan.parameters())
    if (parameter.has_source())
      names.insert(parameter.source().file());
  names.erase(io::fileNameOf(plan.model().path()));
  for (const planpb::ModelFile &known : plan.model().external())
    names.erase(known.file());
  for (const std::string &name : names) {
    auto file = io::File::openBeneath(io::folderOf(plan.model().path()), name);
    if (!file)
      return file.error();
    auto hash = io::fingerprintOf(*file);
    if (!hash)
      return hash.error();
    planpb::ModelFile *record = plan.mutable_model()->add_external();
    record->set_file(name);
    record->set_bytes(static_cast<uint64_t>(file->size()));
    record->set_hash(*hash);
  }
  return Status::success();
}
