// RUN: sed s/@TARGET@/cpu/ %s | zero-opt --assign-queues --plan-memory --keep-packed --mlir-print-local-scope | FileCheck %s
// RUN: sed s/@TARGET@/cpu/ %s | zero-opt --assign-queues --plan-memory --keep-packed --lower-to-plan --verify-plan --mlir-print-local-scope | FileCheck %s --check-prefix=PLAN
// RUN: sed s/@TARGET@/cpu/ %s | zero-opt --assign-queues --plan-memory --keep-packed="device-mem=10000000" --mlir-print-local-scope | FileCheck %s --check-prefix=SHORT
// RUN: sed s/@TARGET@/cpu/ %s | zero-opt --assign-queues --plan-memory --keep-packed="keep-packed=off" | FileCheck %s --check-prefix=NONE
// RUN: sed s/@TARGET@/cuda/ %s | zero-opt --assign-queues --plan-memory --keep-packed | FileCheck %s --check-prefix=NONE
// RUN: sed -e s/@TARGET@/cpu/ -e 's/accumulation = 2/accumulation = 1/' %s | zero-opt --assign-queues --plan-memory --keep-packed | FileCheck %s --check-prefix=NONE
// NONE-NOT: plan.kept =

// Of parameters, which the micro program reads where they are, what products make of them stays: 512 x 512 bf16, in whole blocks. Equal
// products of one parameter share it; other ones, of another order of the factor, have their own. What is no parameter, and what is no
// right factor, is rearranged each time.
// CHECK: plan.slice @kept1 in @device {{.*}}bytes = 524288 class = buffers
// CHECK: plan.slice @kept0 in @device {{.*}}bytes = 524288 class = buffers
// CHECK: graph.matmul {{.*}}plan.kept = #plan.operand<read_write @kept0 + 0 : tensor<524288xui8>>, plan.kept_input = 1
// CHECK: graph.matmul {{.*}}plan.kept = #plan.operand<read_write @kept0 + 0 : tensor<524288xui8>>, plan.kept_input = 1
// CHECK: graph.matmul {{.*}}plan.kept = #plan.operand<read_write @kept1 + 0 : tensor<524288xui8>>, plan.kept_input = 1
// CHECK-NOT: plan.kept =
// PLAN: plan.step "matmul" {{.*}}kept = #plan.operand<read_write @kept0 + 0 : tensor<524288xui8>>, kept_input = 1
// SHORT: graph.matmul {{.*}}plan.kept = #plan.operand<read_write @kept0
// SHORT: graph.matmul {{.*}}plan.kept = #plan.operand<read_write @kept0
// SHORT-NOT: plan.kept =
module attributes {graph.target = "@TARGET@", zero.execution = #zero.execution<stage = 0, accumulation = 2>} {
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.parameter @w : tensor<512x512xbf16> role = frozen
zero.bucket @bucket0 : bf16 padded = 262144 members = [#zero.member<@w, 0, 262144>]

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64x512xbf16>):
  %s = zero.storage @bucket0 of parameters : !zero.buffer<262144 x bf16, device>
  %w = zero.view %s offset = 0 : !zero.buffer<262144 x bf16, device> -> tensor<512x512xbf16>
  %0 = graph.matmul %x, %w : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %1 = graph.matmul %0, %w : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %2 = graph.matmul %1, %w {trans_rhs} : (tensor<64x512xbf16>, tensor<512x512xbf16>) -> tensor<64x512xbf16>
  %3 = graph.matmul %2, %1 {trans_rhs} : (tensor<64x512xbf16>, tensor<64x512xbf16>) -> tensor<64x64xbf16>
  %4 = graph.matmul %w, %1 {trans_rhs} : (tensor<512x512xbf16>, tensor<64x512xbf16>) -> tensor<512x64xbf16>
  graph.return
}

graph.program @update phase = update inputs = [] {
  zero.reduce_loss
  graph.return
}
}
