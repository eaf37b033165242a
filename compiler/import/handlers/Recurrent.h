//===- Recurrent.h - LSTM, GRU and RNN -------------------------------------------------===//
#pragma once

namespace zc::importer {
class HandlerTable;
void addRecurrentHandlers(HandlerTable &table);
} // namespace zc::importer
