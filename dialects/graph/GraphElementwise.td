//===- GraphElementwise.td - one output element per index ----*- tablegen -*-===//
#ifndef ZC_GRAPH_ELEMENTWISE
#define ZC_GRAPH_ELEMENTWISE

include "dialects/graph/GraphBase.td"

/// The element type that the example of an operation on `operand` has.
class Graph_ExampleElement<Type operand> {
  string name = !cond(!eq(!repr(operand), !repr(Graph_BoolTensor)): "i1",
                      !eq(!repr(operand), !repr(Graph_BitsTensor)): "i1",
                      1: "f32");
}

//===-- one operand --------------------------------------------------------===//

class Graph_UnaryOp<string mnemonic, Type operand, string formula, list<Trait> traits = []>
    : Graph_SameTypeOp<mnemonic, !listconcat([Graph_ElementwiseKernel], traits)> {
  let summary = "y = " # formula # ", elementwise";
  let description = "Result type is the operand's.\n\n```mlir\n%y = graph." # mnemonic
      # !subst("ELEMENT", Graph_ExampleElement<operand>.name,
               " %x : (tensor<4xELEMENT>) -> tensor<4xELEMENT>\n```");
  let arguments = (ins operand:$input);
  let results = (outs operand:$result);
}
class Graph_UnaryDiffOp<string mnemonic, string formula, list<Trait> traits = []>
    : Graph_UnaryOp<mnemonic, Graph_FloatTensor, formula, !listconcat([DeclareOpInterfaceMethods<Differentiable>], traits)>;

def Graph_NegOp : Graph_UnaryOp<"neg", Graph_Tensor, "-x", [DeclareOpInterfaceMethods<Differentiable>, Graph_BearsZeros]>;
def Graph_AbsOp : Graph_UnaryOp<"abs", Graph_Tensor, "|x|", [DeclareOpInterfaceMethods<Differentiable>, Graph_BearsZeros]>;
def Graph_ExpOp : Graph_UnaryDiffOp<"exp", "e^x", [Graph_BearsZeros, Graph_Singular]>;
def Graph_LogOp : Graph_UnaryDiffOp<"log", "ln x", [Graph_Singular]>;
def Graph_SqrtOp : Graph_UnaryDiffOp<"sqrt", "sqrt(x)", [Graph_Singular]>;
def Graph_ReciprocalOp : Graph_UnaryDiffOp<"reciprocal", "1 / x", [Graph_Singular]>;
def Graph_SinOp : Graph_UnaryDiffOp<"sin", "sin x", [Graph_BearsZeros]>;
def Graph_CosOp : Graph_UnaryDiffOp<"cos", "cos x", [Graph_BearsZeros]>;
def Graph_TanOp : Graph_UnaryDiffOp<"tan", "tan x", [Graph_Singular]>;
def Graph_AsinOp : Graph_UnaryDiffOp<"asin", "arc sine of x", [Graph_Singular]>;
def Graph_AcosOp : Graph_UnaryDiffOp<"acos", "arc cosine of x", [Graph_Singular]>;
def Graph_AtanOp : Graph_UnaryDiffOp<"atan", "arc tangent of x">;
def Graph_SinhOp : Graph_UnaryDiffOp<"sinh", "sinh x", [Graph_Singular]>;
def Graph_CoshOp : Graph_UnaryDiffOp<"cosh", "cosh x", [Graph_Singular]>;
def Graph_AsinhOp : Graph_UnaryDiffOp<"asinh", "inverse of sinh at x">;
def Graph_AcoshOp : Graph_UnaryDiffOp<"acosh", "inverse of cosh at x", [Graph_Singular]>;
def Graph_AtanhOp : Graph_UnaryDiffOp<"atanh", "inverse of tanh at x", [Graph_Singular]>;
def Graph_TanhOp : Graph_UnaryDiffOp<"tanh", "tanh x", [Graph_BearsZeros]>;
def Graph_SigmoidOp : Graph_UnaryDiffOp<"sigmoid", "1 / (1 + e^-x)", [Graph_BearsZeros]>;
def Graph_ErfOp : Graph_UnaryDiffOp<"erf", "erf x", [Graph_BearsZeros]>;
def Graph_ReluOp : Graph_UnaryDiffOp<"relu", "max(x, 0)", [Graph_BearsZeros]>;
def Graph_SiluOp : Graph_UnaryDiffOp<"silu", "x * sigmoid(x)", [Graph_BearsZeros]>;
def Graph_Expm1Op : Graph_UnaryDiffOp<"expm1", "e^x - 1, exact near 0", [Graph_BearsZeros, Graph_Singular]>;
def Graph_SoftplusOp : Graph_UnaryDiffOp<"softplus", "ln(1 + e^x)", [Graph_BearsZeros]>;
def Graph_FloorOp : Graph_UnaryOp<"floor", Graph_FloatTensor, "largest integer <= x", [Graph_StopsGradient]>;
def Graph_CeilOp : Graph_UnaryOp<"ceil", Graph_FloatTensor, "smallest integer >= x", [Graph_StopsGradient]>;
def Graph_RoundOp : Graph_UnaryOp<"round", Graph_FloatTensor, "nearest integer, ties to even", [Graph_StopsGradient]>;
def Graph_SignOp : Graph_UnaryOp<"sign", Graph_Tensor, "-1, 0 or 1", [Graph_StopsGradient]>;
def Graph_NotOp : Graph_UnaryOp<"not", Graph_BitsTensor, "not x (integers: of each bit)", [Graph_BearsZeros]>;

def Graph_IsNanOp : Graph_TensorOp<"is_nan", [Graph_Kernel, Graph_Elementwise]> {
  let summary = "y = x != x, elementwise";
  let description = "True for NaN.\n\n```mlir\n%y = graph.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>\n```";
  let arguments = (ins Graph_FloatTensor:$input);
  let results = (outs Graph_BoolTensor:$result);
}

def Graph_GeluOp : Graph_SameTypeOp<"gelu", [Graph_ElementwiseKernel, Graph_BearsZeros, DeclareOpInterfaceMethods<Differentiable>]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    ONNX Gelu-20. Without `tanh` 0.5 x (1 + erf(x / sqrt 2)); with it 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    ```mlir
    %y = graph.gelu %x {tanh} : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$input, UnitAttr:$tanh);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_GeluGradOp : Graph_SameTypeOp<"gelu_grad", [Graph_ElementwiseKernel, DeclareOpInterfaceMethods<Differentiable>]> {
  let summary = "gradient of gelu: grad * gelu'(input)";
  let description = [{
    Created by differentiate.

    ```mlir
    %d = graph.gelu_grad %g, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input, UnitAttr:$tanh);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_SiluGradOp : Graph_SameTypeOp<"silu_grad", [Graph_ElementwiseKernel, DeclareOpInterfaceMethods<Differentiable>]> {
  let summary = "gradient of silu: grad * silu'(input)";
  let description = [{
    Created by differentiate.

    ```mlir
    %d = graph.silu_grad %g, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Graph_FloatTensor:$grad, Graph_FloatTensor:$input);
  let results = (outs Graph_FloatTensor:$result);
}

def Graph_CastOp : Graph_DiffOp<"cast", [Graph_Kernel, Graph_Elementwise, Graph_BearsZeros, Graph_MovesElements]> {
  let summary = "converts the element type";
  let description = [{
    ONNX Cast: floats to integers truncate, anything to bool is x != 0. The result type is part of the op.

    ```mlir
    %y = graph.cast %x {to = i64} : (tensor<4xf32>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Graph_Tensor:$input, TypeAttr:$to);
  let results = (outs Graph_Tensor:$result);
  let hasFolder = 1;
}

//===-- two operands, numpy broadcasting -----------------------------------===//

class Graph_BinaryOp<string mnemonic, Type operand, Type result_, string formula, list<Trait> traits = []>
    : Graph_TensorOp<mnemonic, !listconcat([Graph_ElementwiseKernel], traits)> {
  let summary = formula # ", elementwise with numpy broadcasting";
  let description = "Operands have one element type (`element_c1`) and shapes that broadcast (`broadcast_c1`).\n\n```mlir\n%y = graph." # mnemonic
      # " %a, %b : (tensor<2x3x" # Graph_ExampleElement<operand>.name # ">, tensor<3x"
      # Graph_ExampleElement<operand>.name # ">) -> tensor<2x3x"
      # Graph_ExampleElement<result_>.name # ">\n```";
  let arguments = (ins operand:$lhs, operand:$rhs);
  let results = (outs result_:$result);
}
class Graph_ArithmeticOp<string mnemonic, string formula, list<Trait> traits = [Graph_BearsZeros]>
    : Graph_BinaryOp<mnemonic, Graph_Tensor, Graph_Tensor, formula, !listconcat([DeclareOpInterfaceMethods<Differentiable>], traits)>;
class Graph_CompareOp<string mnemonic, string formula>
    : Graph_BinaryOp<mnemonic, Graph_Tensor, Graph_BoolTensor, formula, [Graph_BearsZeros]>;
class Graph_LogicOp<string mnemonic, string formula, list<Trait> traits = [Graph_BearsZeros]>
    : Graph_BinaryOp<mnemonic, Graph_BitsTensor, Graph_BitsTensor, formula, traits>;

def Graph_AddOp : Graph_ArithmeticOp<"add", "a + b"> { let hasCanonicalizer = 1; }
def Graph_SubOp : Graph_ArithmeticOp<"sub", "a - b">;
def Graph_MulOp : Graph_ArithmeticOp<"mul", "a * b"> { let hasFolder = 1; }
def Graph_DivOp : Graph_ArithmeticOp<"div", "a / b (integers truncate)", [Graph_Sharded, Graph_Singular]>;
def Graph_PowOp : Graph_ArithmeticOp<"pow", "a to the power b", [Graph_Singular]>;
def Graph_MinOp : Graph_ArithmeticOp<"min", "min(a, b), NaN wins">;
def Graph_MaxOp : Graph_ArithmeticOp<"max", "max(a, b), NaN wins">;
def Graph_ModOp : Graph_ArithmeticOp<"mod", "a mod b, sign of b (ONNX Mod, fmod = 0)", [Graph_Singular]>;
def Graph_EqualOp : Graph_CompareOp<"equal", "a == b">;
def Graph_LessOp : Graph_CompareOp<"less", "a < b">;
def Graph_LessEqualOp : Graph_CompareOp<"less_equal", "a <= b">;
def Graph_AndOp : Graph_LogicOp<"and", "a and b (integers: of each bit)">;
def Graph_OrOp : Graph_LogicOp<"or", "a or b (integers: of each bit)">;
def Graph_XorOp : Graph_LogicOp<"xor", "a xor b (integers: of each bit)">;
def Graph_ShiftLeftOp : Graph_LogicOp<"shift_left", "a shifted by b bits towards the high end, 0 from b = width on", []>;
def Graph_ShiftRightOp : Graph_LogicOp<"shift_right", "a shifted by b bits towards the low end, 0 from b = width on", []>;

def Graph_SelectOp : Graph_DiffOp<"select", [Graph_Kernel, Graph_Elementwise, Graph_BearsZeros]> {
  let summary = "condition ? a : b, elementwise with numpy broadcasting of all three";
  let description = [{
    The three shapes broadcast (`broadcast_c1`); a and b have one element type (`element_c1`).

    ```mlir
    %y = graph.select %c, %a, %b : (tensor<3xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins Graph_BoolTensor:$condition, Graph_Tensor:$lhs, Graph_Tensor:$rhs);
  let results = (outs Graph_Tensor:$result);
}

//===-- many in one pass ---------------------------------------------------===//

def Graph_FusedOp : Graph_Op<"fused", [Pure, Graph_KernelWith<["getFlops"]>, Graph_OverwritesOperands, Graph_Strided]> {
  let summary = "a program of elementwise operations in one pass over memory";
  let description = [{
    Made by fuse-elementwise, a kernel from then on. `program` is a list of vector instructions on registers, which
    kernels/FusedProgram.h describes: first the inputs, then a register per instruction. All results have one shape
    (`fused_c1`), to which the inputs broadcast; the program is sound and gives their element types (`fused_c2`). Bits
    are those of the operations one by one. With `views` inputs and results may be seen in other tensors, runs of some elements
    each in one piece (dialects/graph/View.h).

    ```mlir
    // registers 0, 1: inputs; 2: mul 0, 1; 3: exp 2
    %y = graph.fused %a, %b {program = array<i64: 2, 6, 0, 0, 1, 20, 0, 2, 0, 3>} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, DenseI64ArrayAttr:$program, OptionalAttr<Graph_ViewsAttr>:$views);
  let results = (outs Variadic<Graph_Tensor>:$results);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Graph_FusedIntoOp : Graph_Op<"fused_into", [Pure, Graph_KernelWith<["getKernelName", "getFlops"]>]> {
  let summary = "an operation that reads its first operand while a program computes it";
  let description = [{
    Made by fuse-elementwise of an operation `into` that takes programs, a kernel from then on. What would be its operand 0 is the one
    result of `program` (kernels/FusedProgram.h) and never in memory: the first operands are the program's inputs, the others its own,
    its attributes and results are too. The program is sound and the operation takes one (`fused_into_c1`), and what it computes, which is as large as
    its inputs broadcast to (`fused_into_c2`). Bits are those of the two one after the other.

    ```mlir
    // registers 0, 1: inputs; 2: mul 0, 1
    %ds, %db, %f, %a, %s = graph.fused_into %g, %h, %x, %c, %m, %v
        {into = "batch_norm_grad_sums", program = array<i64: 1, 6, 0, 0, 1, 0, 2>, epsilon = 1.0e-5 : f64, channels_last}
        : (tensor<2x4x3xf32>, tensor<3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
        -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    ```
  }];
  let arguments = (ins Variadic<Graph_Tensor>:$inputs, StrAttr:$into, DenseI64ArrayAttr:$program);
  let results = (outs Variadic<Graph_Tensor>:$results);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // ZC_GRAPH_ELEMENTWISE
