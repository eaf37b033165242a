#include "runtime/train/OutputTable.h"

#include "runtime/train/Layout.h"

#include <algorithm>

namespace zc::train {

Result<OutputTable> OutputTable::layOut(const planpb::Plan &plan, const EvalExtent &extent,
                                        std::vector<io::SafetensorsTable::Tensor> &tensors) {
  OutputTable table;
  table.extent = extent;
  double bytes = 0;
  for (const planpb::Output &output : plan.outputs()) {
    const planpb::TensorType &type = plan.types(int(output.type()));
    TensorType one{dtypeOf(type.type()), {type.dims().begin(), type.dims().end()}};
    Column column{one.numBytes(), !one.dims.empty() && one.dims[0] == extent.rows};
    if (column.hasRows)
      one.dims[0] = extent.samples;
    else
      one.dims.insert(one.dims.begin(), extent.wholeBatches());
    bytes += double(column.batchBytes) * (double(extent.samples) / double(extent.rows) + 1);
    tensors.push_back({output.name(), std::move(one)});
    table.columns.push_back(column);
  }
  if (bytes > 0x1p60)
    return makeError(Code::budget, 951, "the outputs have more than 2^60 bytes", "--outputs",
                     "zero-compile --outputs NAME hands over only some of them");
  return table;
}

Result<OutputTable> OutputTable::create(const planpb::Plan &plan, const EvalExtent &extent, const std::string &path) {
  std::vector<io::SafetensorsTable::Tensor> tensors;
  auto table = layOut(plan, extent, tensors);
  if (!table)
    return table;
  auto file = io::SafetensorsTable::create(path, std::move(tensors));
  if (!file)
    return file.error();
  table->file = std::move(*file);
  return table;
}

Result<OutputTable> OutputTable::join(const planpb::Plan &plan, const EvalExtent &extent,
                                      const std::string &temporaryName) {
  std::vector<io::SafetensorsTable::Tensor> tensors;
  auto table = layOut(plan, extent, tensors);
  if (!table)
    return table;
  auto file = io::SafetensorsTable::join(temporaryName, std::move(tensors));
  if (!file)
    return file.error();
  table->file = std::move(*file);
  return table;
}

Status OutputTable::store(uint32_t output, int64_t batch, const void *source) {
  const Column &column = columns[output];
  int64_t bytes = column.batchBytes;
  if (column.hasRows)
    bytes = bytes / extent.rows * std::clamp<int64_t>(extent.samples - batch * extent.rows, 0, extent.rows);
  else if (batch >= extent.wholeBatches())
    bytes = 0;
  return bytes == 0 ? Status::success() : file.place(output, batch * column.batchBytes, source, bytes);
}

} // namespace zc::train
