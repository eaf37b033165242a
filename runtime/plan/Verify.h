//===- Verify.h - is this plan safe to execute --------------------------------===//
//
// Everything the executor relies on without looking again. Constraints carry labels that stand here, above the check
// and in the name of the negative test (test/runtime/Verify*Test.cpp). "node" is the step's ONNX node.
//
//   plan_c1      format is kPlanFormat
//   plan_c2      the mesh has at most 8 axes of known kinds with names of their own, sizes of 1 or more and at most
//                65536 ranks; stage 0..3, accumulation in 1..2^20, 2 or more where vertical; precision fp32, bf16,
//                fp16
//   plan_c3      strings are valid UTF-8 of at most 64 KiB
//   plan_c4      at most 4,000,000 steps
//   plan_c5      optimizer numbers are finite, the schedule of the learning rate is one
//   plan_c6      the report's peaks are the arenas' bytes, where there is a report
//   plan_c7      forward-only: outputs, no update, one micro-step, nothing trains; else: outputs where it evaluates
//   share_c1     shares of threads are of known queues, ascending, 1 to 1000 thousandths
//   eval_c1      an evaluation is of a plan that trains, and hands over a loss
//   eval_c2      it holds what is said here of a forward-only plan, and waits for steps of its own only
//   eval_c3      it writes nothing that outlives it
//   delay_c1     a delayed update is of a plan that trains, from a step of at most 2^62 on; trainable buckets all have
//                a master
//   delay_c2     steps that publish are of such a plan's update; of what outlives a step they write parameters of
//                trainable buckets only
//   scale_c1     a plan scales its loss where, and only where, it trains in fp16, and then has a norm
//   scale_c2     the scale begins at or above a minimum above 0, at most at 2^127; window at most 2^62, hysteresis in
//                1..2^62
//   scale_c3     kernel loss_scale and the attribute "scaled" are of such plans, whose every norm_finish has it
//   type_c1      known element type
//   type_c2      at most 64 dimensions, none negative, at most 2^48 bytes
//   arena_c1     known tier, at most 2^52 bytes
//   arena_c2     at most one arena per tier
//   slice_c1     arena in range, known class
//   slice_c2     starts at a multiple of 256; of 4096 on host and nvme
//   slice_c3     inside its arena; on host and nvme with the bytes up to the next multiple of 4096
//   slice_c4     a persistent slice shares no byte with any other slice
//   input_c1     type in range
//   input_c3     a range holds something
//   parameter_c1 type in range, known role
//   parameter_c2 initial value is there and has the bytes of the type, of the whole's where it is cut; its file is a
//                relative path without ".."
//   parameter_c3 a BUFFER has a persistent slice of its type's bytes and no bucket; the others a bucket and no slice
//   parameter_c4 has its bucket's element type and trains if its bucket does
//   parameter_c5 starts at a multiple of 64 elements and lies inside its bucket
//   parameter_c6 shares no element with another
//   parameter_c7 parts of one whole are all of it, in order, of one type, role and cut, with the same ties and
//                adjoining sources, of a cut one the same source; of that they are all that a rank has of it
//   parameter_c8 a cut one is a member of a bucket; the plan's mesh has model axes of several ranks; the whole's
//                dimension is groups * ranks along them equal parts, of which its type, or that of which it is a part,
//                has one of each group (one group's last parts may be shorter); all members of a bucket are cut, or
//                none
//   parameter_c9 its own scale of the rate and its own decay are finite and not negative
//   bucket_c1    padded == shard * the ranks along its axes, shard is a positive multiple of 64
//   bucket_c2    used is the sum of its parameters' elements
//   bucket_c3    storage slices are in range, hold exactly padded or shard elements, and are persistent (gradients need
//                not)
//   bucket_c4    frozen: no gradient, no optimizer state; trainable: a gradient; f32 has master weights only on another
//                tier than its parameters, or where the update is delayed
//   bucket_c5    a persistent slice has one owner
//   bucket_c6    cut over axes of the mesh, ascending
//   bucket_c7    gradients in another type: of a bucket of 16 bits that trains, in f32
//   output_c1    type in range, known kind; at most one loss and one weight of it, scalar floats, no weight alone
//   output_c3    only the loss is a likelihood, only a likelihood by labels
//   metrics_c1   loss slice (8 bytes, 16 where weighted) and norm slice (4 bytes, or -1) are in range and persistent,
//                on device or host; not of a forward-only plan
//   step_c1      known queue; kernel and node are strings
//   step_c2      the operands called inputs are READ, the others are not
//   step_c3      attribute names are strings and distinct
//   step_c4      at most 4096 operands and 256 attributes; few operands' ranges reach across others'
//   step_c5      the expected seconds and operations are finite and not negative, the bytes below 2^62
//   step_c6      an attribute "micro" is one of the micro-steps, in plans that are vertical
//   step_c7      its axes are of the mesh, ascending
//   operand_c1   slice, type in range; known access; not more strides than axes
//   operand_c2   inside its slice on every rank
//   operand_c3   offset and strides are multiples of the element's bytes
//   operand_c4   on no rank a written operand shares bytes with another, unless that is the same range, read (in place:
//                that the kernel works so is the compiler's word), or of a gather or a sum that keeps the type the
//                rank's own part; all_to_all is never in place
//   view_c1      an attribute "views" has one of each tensor that the kernel sees, an operand's by one, in order; at
//                most 256, of at most 64 dimensions, none negative (base/StridedView.h)
//   view_c2      a view is inside its operand, and so on every rank
//   view_c3      no element is in a view twice
//   view_c4      views of a written operand have all its elements, each in one of them
//   workspace_c1 a step's workspace is written bytes (U8) of a transient slice on a tier that its queue reaches
//   workspace_c2 its slice shares no byte with the slice of an operand of the step
//   kept_c1      what a step keeps is bytes (U8), READ_WRITE, of a transient slice on a tier that its queue reaches
//                and of none of its operands, nor its workspace's; in micro alone, where that runs more than once a
//                step
//   kept_c2      it is of an input in a persistent slice, of which micro writes no byte
//   wait_c1      section, queue and ordinal name a step; distance at most 2^20
//   wait_c2      points backward: an earlier step of this execution or an earlier execution
//   tier_c1      a step's operands are on tiers that its queue reaches
//   tier_c2      the queues between tiers run nothing but their copy; h2d also load_input
//   copy_c1      a tier copy is on its queue and has one input and one output
//   copy_c2      of equal bytes, on the tiers it is for
//   copy_c3      to and from nvme: both operands start at a multiple of 4096 within their slice, on every rank; what is
//                on nvme, and what is written of a persistent slice, is a multiple of 4096 long or ends with its slice
//   collective_c1 on queue COMM (so that all ranks run them in one order), one input and one output, or all_reduce on
//                one READ_WRITE operand
//   collective_c2 sizes: the whole is a part for each rank along the axes; element types a communicator takes
//   collective_c3 attributes: finite scale, known traffic, READ_WRITE where it accumulates
//   input_c2     load_input is in micro, writes one operand of its input's type
//   output_c2    store_output is in micro, on queue compute, reads one operand of its output's type
//   walk_c1      conflicting accesses on different queues are ordered by waits, where what depends on the rank
//                is all that any rank touches
//   walk_c2      what a step reads from a transient slice was written before, last through that slice, by all ranks
//                Both also where an update that is delayed later is not yet: publishing steps one by one at its end
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/plan/plan.pb.h"

namespace zc {

/// Proves all of the above, or gives the first violation (corrupt; plan_c1: mismatch) with the node's name and, in the
/// note, the constraint. 50,000 steps take about a second.
Status verifyPlan(const planpb::Plan &plan);

} // namespace zc
