//===- Parameters.cpp - parameters fetched where they are used ---------------------===//

#include "compiler/shard/offload/Offload.h"

using namespace mlir;
using namespace zc;
using namespace zc::offload;

/// Every use of a bucket's parameters in a micro-step, a gather of the shard or views of the whole, reads a device
/// buffer that is filled just before: bandwidth-centric, each rank fetches its part over its own link (arXiv
/// 2104.07857, section 6.1).
void offload::offloadParameters(Context &context, graph::ProgramOp program, Staging &staging) {
  SymbolTable symbols(context.module);
  SmallVector<zero::StorageOp> storages(program.getBlock().getOps<zero::StorageOp>());
  for (zero::StorageOp storage : storages) {
    auto bucket = symbols.lookup<zero::BucketOp>(storage.getBucket());
    if (storage.getWhat() != zero::Storage::parameters || bucket.getParametersTier() == zero::Tier::device)
      continue;
    OpBuilder builder(storage);
    Location location = storage.getLoc();
    Value stored = zero::createStorage(builder, location, bucket, zero::Storage::parameters, context.mesh);
    auto type = zero::BufferType::get(builder.getContext(), storage.getType().getNumElements(), bucket.getType(),
                                      zero::Tier::device);
    auto fetch = [&](OpBuilder &inside) -> Value {
      Value loaded = inside.create<zero::AllocOp>(location, type);
      context.move(inside, location, staging, "parameters", stored, loaded);
      return loaded;
    };
    // A load that gathers begins by fetching; what is used as it is fetched is a load by itself.
    auto load = storage.use_empty() ? zero::LoadOp() : storage->user_begin()->getParentOfType<zero::LoadOp>();
    if (load)
      builder.setInsertionPointToStart(&load.getBlock());
    storage.replaceAllUsesWith(load ? fetch(builder) : builder.create<zero::LoadOp>(location, fetch).getBuffer());
    storage.erase();
  }
}
