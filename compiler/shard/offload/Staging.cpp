//===- Staging.cpp - rings of host buffers, copies through them -------------------===//

#include "compiler/shard/offload/Offload.h"

using namespace mlir;
using namespace zc;
using namespace zc::offload;

SmallVector<Chunk> offload::chunksOf(int64_t elements, int64_t chunkElements) {
  SmallVector<Chunk> chunks;
  for (int64_t offset = 0; offset < elements; offset += chunkElements)
    chunks.push_back({offset, std::min(chunkElements, elements - offset)});
  return chunks;
}

static zero::BufferType sized(Type buffer, int64_t elements) {
  auto type = cast<zero::BufferType>(buffer);
  return zero::BufferType::get(type.getContext(), elements, type.getElementType(), type.getTier());
}

Value Staging::next(OpBuilder &builder, Location location, StringRef use, int64_t count, Type type) {
  Ring &ring = rings[{builder.getStringAttr(use), type}];
  ring.elements = std::max(ring.elements, count);
  auto whole = zero::BufferType::get(builder.getContext(), count, type, zero::Tier::host);
  // The slot's buffer is made by `finish`; until then the part is of one of its own.
  auto alloc = builder.create<zero::AllocOp>(location, whole);
  auto part = builder.create<zero::PartOp>(location, whole, alloc, int64_t(0), ArrayAttr());
  ring.parts.push_back(part);
  return part;
}

void Staging::finish() {
  OpBuilder builder = OpBuilder::atBlockBegin(&program.getBlock());
  int64_t bytes = 0; // of a slot of each ring
  for (auto &[key, ring] : rings)
    bytes += ring.elements * graph::bytesOfElement(key.second);
  const size_t most = kSlots + static_cast<size_t>(bytes > 0 ? ahead / bytes : 0);
  for (auto &[key, ring] : rings) {
    auto type = zero::BufferType::get(builder.getContext(), ring.elements, key.second, zero::Tier::host);
    // What is used once has no bytes of its own before and after it, and is not read into ahead of them.
    const size_t slots = std::min(most, std::max(kSlots, ring.parts.size() / 2));
    for (size_t slot = 0; slot < std::min(slots, ring.parts.size()); ++slot) {
      auto buffer = builder.create<zero::AllocOp>(program.getLoc(), type);
      for (size_t i = slot; i < ring.parts.size(); i += slots) {
        Operation *own = ring.parts[i].getBuffer().getDefiningOp();
        ring.parts[i].getBufferMutable().assign(buffer);
        own->erase();
      }
    }
  }
  rings.clear();
}

Value offload::partOf(OpBuilder &builder, Location location, Value buffer, Chunk chunk) {
  auto type = cast<zero::BufferType>(buffer.getType());
  if (chunk.offset == 0 && chunk.count == type.getNumElements())
    return buffer;
  return builder.create<zero::PartOp>(location, sized(type, chunk.count), buffer, chunk.offset, ArrayAttr());
}

Value offload::storageChunk(OpBuilder &builder, Location location, zero::BucketOp bucket, zero::Storage what,
                            Chunk chunk, const Mesh &mesh, bool own) {
  return partOf(builder, location, zero::createStorage(builder, location, bucket, what, mesh, own), chunk);
}

void Context::move(OpBuilder &builder, Location location, Staging &staging, StringRef use, Value source, Value target) {
  auto tier = [](Value value) { return zero::tierOf(value.getType()); };
  auto step = [&](Value from, Value to) {
    if (tier(from) > tier(to))
      builder.create<zero::FetchOp>(location, from, to);
    else
      builder.create<zero::EvictOp>(location, from, to);
  };
  bool adjacent = std::abs(static_cast<int>(tier(source)) - static_cast<int>(tier(target))) == 1;
  if (adjacent)
    return step(source, target);
  auto type = cast<zero::BufferType>(target.getType());
  for (Chunk chunk : chunksOf(type.getNumElements(), chunkElements)) {
    Value stage = staging.next(builder, location, use, chunk.count, type.getElementType());
    step(partOf(builder, location, source, chunk), stage);
    step(stage, partOf(builder, location, target, chunk));
  }
}
