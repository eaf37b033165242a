//===- Handlers.h - the families of operators -------------------------------===//
#pragma once

#include "compiler/import/node/HandlerTable.h"

namespace zc::importer {

/// All rows of all families.
const HandlerTable &allHandlers();

void addElementwiseHandlers(HandlerTable &table);
void addConstantHandlers(HandlerTable &table);
void addShapeHandlers(HandlerTable &table);
void addSliceHandlers(HandlerTable &table);
void addIndexHandlers(HandlerTable &table);
void addReduceHandlers(HandlerTable &table);
void addLinearHandlers(HandlerTable &table);
void addNormHandlers(HandlerTable &table);
void addAttentionHandlers(HandlerTable &table);
void addLossHandlers(HandlerTable &table);
void addMicrosoftGradHandlers(HandlerTable &table);
void addGradientHandlers(HandlerTable &table);
void addSequenceHandlers(HandlerTable &table);
void addVisionHandlers(HandlerTable &table);
void addBatchNormHandlers(HandlerTable &table);
void addActivationHandlers(HandlerTable &table);
void addMicrosoftHandlers(HandlerTable &table);
void addMicrosoftAttentionHandlers(HandlerTable &table);
void addControlHandlers(HandlerTable &table);
void addTrainingHandlers(HandlerTable &table);
void addRandomHandlers(HandlerTable &table);
void addOrderHandlers(HandlerTable &table);
void addEinsumHandlers(HandlerTable &table);
void addRotaryHandlers(HandlerTable &table);
void addQuantizeHandlers(HandlerTable &table);
void addResizeHandlers(HandlerTable &table);
void addGridSampleHandlers(HandlerTable &table);
void addFourierHandlers(HandlerTable &table);
void addCol2ImHandlers(HandlerTable &table);
void addRecurrentHandlers(HandlerTable &table);

} // namespace zc::importer
