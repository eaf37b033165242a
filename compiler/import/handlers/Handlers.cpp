//===- Handlers.cpp - the families of operators -----------------------------===//
#include "compiler/import/handlers/Handlers.h"

using namespace zc::importer;

const HandlerTable &zc::importer::allHandlers() {
  static const HandlerTable table = [] {
    HandlerTable t;
    addElementwiseHandlers(t);
    addConstantHandlers(t);
    addShapeHandlers(t);
    addSliceHandlers(t);
    addIndexHandlers(t);
    addReduceHandlers(t);
    addLinearHandlers(t);
    addNormHandlers(t);
    addAttentionHandlers(t);
    addLossHandlers(t);
    addMicrosoftGradHandlers(t);
    addGradientHandlers(t);
    addSequenceHandlers(t);
    addVisionHandlers(t);
    addBatchNormHandlers(t);
    addActivationHandlers(t);
    addMicrosoftHandlers(t);
    addMicrosoftAttentionHandlers(t);
    addControlHandlers(t);
    addTrainingHandlers(t);
    addRandomHandlers(t);
    addOrderHandlers(t);
    addEinsumHandlers(t);
    addRotaryHandlers(t);
    addQuantizeHandlers(t);
    addResizeHandlers(t);
    addGridSampleHandlers(t);
    addFourierHandlers(t);
    addCol2ImHandlers(t);
    addRecurrentHandlers(t);
    return t;
  }();
  return table;
}
