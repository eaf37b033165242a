//===- Errors.h - numbers of the importer's messages ---------------------------===//
#pragma once

#include "base/Status.h"

namespace zc::importer {

/// Z-numbers of compiler/import, 0200-0299, one per message template.
enum Number : int {
  cannotOpen = 200,      ///< missing, no permission
  notAFile = 201,        ///< directory, FIFO, device
  tooLarge = 202,        ///< over a limit of ImportLimits
  notOnnx = 203,         ///< empty, text, archive, no graph
  malformed = 204,       ///< the bytes are not a message of this format
  badVersion = 205,      ///< IR version or opset
  badStructure = 206,    ///< names, definitions, duplicates
  badTensor = 207,       ///< dims, dtype and bytes do not fit
  badExternal = 208,     ///< external data entry
  badAttribute = 209,    ///< missing, of the wrong type or value
  badNode = 210,         ///< operands do not fit the operation
  unsupportedOp = 220,   ///< no handler
  unsupportedForm = 221, ///< handler, but not for this attribute, operand or type
  unsupportedFile = 222, ///< functions, sparse initializers, training_info
  dynamicShape = 223,    ///< a shape operand is not known when compiling
  unboundDims = 230,
  unknownDim = 231,
  noLoss = 232,
  severalLosses = 233,
  badLoss = 234,
  unmatchedGlob = 235,
  badTie = 236,
  badLossOp = 237,
  badCheckpoint = 238,
  badLimit = 239,
  badFixedInput = 241, ///< value given for an input does not fit it
  noOutput = 242,
  readFailed = 240,
  notOrtModel = 243, ///< files of ONNX Runtime's training given for another model
};

inline Error badFile(Number number, std::string message, std::string where = {}, std::string help = {}) {
  return makeError(Code::badInput, number, std::move(message), std::move(where), std::move(help));
}
inline Error unsupportedError(Number number, std::string message, std::string where = {}, std::string help = {}) {
  return makeError(Code::unsupported, number, std::move(message), std::move(where), std::move(help));
}

} // namespace zc::importer
