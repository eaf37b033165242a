//===- Operators.h - operators without a handler ------------------------===//
#pragma once

#include "compiler/import/program/Scope.h"

namespace zc::importer {

/// Every operator that will be met, in functions and subgraphs too, has a handler. Errors: unsupported, with all that
/// have none at once. `live`: the nodes of the model's graph that are imported.
Status checkOperators(const ModelFile &file, const Functions &functions, const Body &live);

} // namespace zc::importer
