//===- Singular.cpp - operands at which operations are not finite ----------------------------===//
#include "dialects/graph/Graph.h"

using namespace zc::graph;

using Found = std::optional<Harmless>;

Found SqrtOp::getHarmless(unsigned) { return Harmless{1, Harmless::positive}; }
Found LogOp::getHarmless(unsigned) { return Harmless{1, Harmless::positive}; }
Found ReciprocalOp::getHarmless(unsigned) { return Harmless{1, Harmless::positive}; }
Found DivOp::getHarmless(unsigned index) { return index == 0 ? Found() : Harmless{1, Harmless::positive}; }
Found ModOp::getHarmless(unsigned index) { return index == 0 ? Found() : Harmless{1, Harmless::positive}; }
Found PowOp::getHarmless(unsigned) { return Harmless{1, Harmless::exponent}; }
Found AcoshOp::getHarmless(unsigned) { return Harmless{2}; }
// Finite at all that is small enough.
Found ExpOp::getHarmless(unsigned) { return Harmless{0}; }
Found Expm1Op::getHarmless(unsigned) { return Harmless{0}; }
Found SinhOp::getHarmless(unsigned) { return Harmless{0}; }
Found CoshOp::getHarmless(unsigned) { return Harmless{0}; }
Found TanOp::getHarmless(unsigned) { return Harmless{0}; }
Found AsinOp::getHarmless(unsigned) { return Harmless{0}; }
Found AcosOp::getHarmless(unsigned) { return Harmless{0}; }
Found AtanhOp::getHarmless(unsigned) { return Harmless{0}; }
Found SoftmaxOp::getHarmless(unsigned) { return Harmless{0, Harmless::unmasked}; }
Found LogSoftmaxOp::getHarmless(unsigned) { return Harmless{0, Harmless::unmasked}; }
