#include "test/compiler/grad/Cases.h"

namespace zc::test {
namespace {

using Cases = std::vector<Case>;

/// Rank 0, rank 1, a dimension of 1, nothing at all.
const std::vector<std::string> shapes = {"f64", "3xf64", "2x1x3xf64", "0x3xf64"};

void addUnary(Cases &cases) {
  struct Unary {
    const char *op;
    double low = -2, high = 2, gap = 0;
    const char *attributes = "";
  };
  const Unary table[] = {{"neg"},
                         {"abs", -2, 2, 0.1},
                         {"exp"},
                         {"log", 0.5, 2},
                         {"sqrt", 0.5, 2},
                         {"reciprocal", -2, 2, 0.5},
                         {"sin"},
                         {"cos"},
                         {"tan", -1, 1},
                         {"asin", -0.9, 0.9},
                         {"acos", -0.9, 0.9},
                         {"atan"},
                         {"sinh"},
                         {"cosh"},
                         {"asinh"},
                         {"acosh", 1.5, 3},
                         {"atanh", -0.9, 0.9},
                         {"tanh"},
                         {"sigmoid"},
                         {"erf"},
                         {"relu", -2, 2, 0.1},
                         {"silu"},
                         {"expm1"},
                         {"softplus"},
                         {"gelu"},
                         {"gelu", -2, 2, 0, "{tanh}"},
                         {"cast", -2, 2, 0, "{to = f64}"}};
  for (const Unary &unary : table)
    for (const std::string &shape : shapes)
      cases.push_back({unary.op, {shape}, {shape}, unary.attributes, unary.low, unary.high, unary.gap});
}

void addBinary(Cases &cases) {
  struct Operands {
    const char *lhs, *rhs, *result;
  };
  const Operands operands[] = {{"2x3xf64", "2x3xf64", "2x3xf64"},     {"f64", "f64", "f64"},
                               {"2x3xf64", "3xf64", "2x3xf64"},       {"f64", "4xf64", "4xf64"},
                               {"2x1x3xf64", "4x1xf64", "2x4x3xf64"}, {"0x3xf64", "3xf64", "0x3xf64"}};
  // Drawn apart from 0 for div and pow; two draws are never so close that min, max have a kink within the step.
  for (const char *op : {"add", "sub", "mul", "min", "max"})
    for (const Operands &o : operands)
      cases.push_back({op, {o.lhs, o.rhs}, {o.result}});
  for (const Operands &o : operands) {
    cases.push_back({"div", {o.lhs, o.rhs}, {o.result}, "", -2, 2, 0.5});
    cases.push_back({"pow", {o.lhs, o.rhs}, {o.result}, "", 0.5, 2});
    cases.push_back({"mod", {o.lhs, o.rhs}, {o.result}, "", -2, 2, 0.5});
  }
  for (const char *exponent : {"0.0", "1.0", "2.0", "3.0", "-1.5"})
    cases.push_back({"pow", {"3xf64", "dense<" + std::string(exponent) + "> : tensor<f64>"}, {"3xf64"}, "", 0.5, 2});
  cases.push_back({"pow", {"3xf64", "dense<[2.0, 3.0, 0.0]> : tensor<3xf64>"}, {"3xf64"}, "", -2, -0.5});

  const char *bits = "dense<[true, false, true]> : tensor<3xi1>";
  cases.push_back({"select", {bits, "3xf64", "3xf64"}, {"3xf64"}});
  cases.push_back({"select", {bits, "2x1xf64", "f64"}, {"2x3xf64"}});
  cases.push_back({"select", {"dense<false> : tensor<i1>", "f64", "2x3xf64"}, {"2x3xf64"}});
}

void addMoves(Cases &cases) {
  cases.insert(
      cases.end(),
      {{"reshape", {"2x3xf64"}, {"3x2xf64"}, "{shape = array<i64: 3, 2>}"},
       {"reshape", {"1xf64"}, {"f64"}, "{shape = array<i64>}"},
       {"reshape", {"0x3xf64"}, {"3x0x2xf64"}, "{shape = array<i64: 3, 0, 2>}"},
       {"transpose", {"2x3xf64"}, {"3x2xf64"}, "{permutation = array<i64: 1, 0>}"},
       {"transpose", {"2x3x4xf64"}, {"4x2x3xf64"}, "{permutation = array<i64: 2, 0, 1>}"},
       {"transpose", {"f64"}, {"f64"}, "{permutation = array<i64>}"},
       {"expand", {"3xf64"}, {"2x3xf64"}, "{shape = array<i64: 2, 3>}"},
       {"expand", {"2x1xf64"}, {"4x2x3xf64"}, "{shape = array<i64: 4, 2, 3>}"},
       {"expand", {"f64"}, {"3xf64"}, "{shape = array<i64: 3>}"},
       {"expand", {"1x3xf64"}, {"0x3xf64"}, "{shape = array<i64: 0, 3>}"},
       {"slice",
        {"4x3xf64"},
        {"2x2xf64"},
        "{offsets = array<i64: 1, 0>, sizes = array<i64: 2, 2>, strides = array<i64: 1, 1>}"},
       {"slice",
        {"2x4x3xf64"},
        {"2x4x3xf64"},
        "{offsets = array<i64: 1, 0, 2>, sizes = array<i64: 2, 4, 3>, strides = array<i64: -1, 1, -1>}"},
       {"slice", {"5xf64"}, {"3xf64"}, "{offsets = array<i64: 4>, sizes = array<i64: 3>, strides = array<i64: -2>}"},
       {"slice",
        {"1x3xf64"},
        {"1x0xf64"},
        "{offsets = array<i64: 0, 0>, sizes = array<i64: 1, 0>, strides = array<i64: 1, 1>}"},
       {"concat", {"2xf64", "3xf64"}, {"5xf64"}, "{axis = 0 : i64}"},
       {"concat", {"2x1xf64", "2x3xf64", "2x0xf64"}, {"2x4xf64"}, "{axis = 1 : i64}"},
       {"concat", {"2x3xf64", "dense<1.0> : tensor<1x3xf64>"}, {"3x3xf64"}, "{axis = 0 : i64}"},
       {"pad", {"3xf64"}, {"6xf64"}, "{low = array<i64: 1>, high = array<i64: 2>, value = 3.0 : f64}"},
       {"pad", {"4x2xf64"}, {"2x3xf64"}, "{low = array<i64: -1, 1>, high = array<i64: -1, 0>, value = 0.0 : f64}"},
       {"pad", {"f64"}, {"f64"}, "{low = array<i64>, high = array<i64>, value = 0.0 : f64}"}});
}

void addGathers(Cases &cases) {
  // Repeated and negative indices: contributions add up.
  cases.insert(
      cases.end(),
      {{"gather", {"4x3xf64", "dense<[1, 1, -1]> : tensor<3xi64>"}, {"3x3xf64"}, "{axis = 0 : i64}"},
       {"gather", {"2x4xf64", "dense<[[0, 3], [3, 3]]> : tensor<2x2xi32>"}, {"2x2x2xf64"}, "{axis = 1 : i64}"},
       {"gather", {"4xf64", "dense<2> : tensor<i64>"}, {"f64"}, "{axis = 0 : i64}"},
       {"gather_elements",
        {"2x4xf64", "dense<[[0, 3, 3], [-1, 1, 3]]> : tensor<2x3xi64>"},
        {"2x3xf64"},
        "{axis = 1 : i64}"},
       {"gather_elements", {"3xf64", "dense<[2, 2]> : tensor<2xi64>"}, {"2xf64"}, "{axis = 0 : i64}"},
       {"gather_elements", {"3x2xf64", "dense<[[1, 0]]> : tensor<1x2xi64>"}, {"1x2xf64"}, "{axis = 0 : i64}"},
       {"gather_nd",
        {"3x4xf64", "dense<[[0, 1], [2, 3], [0, 1]]> : tensor<3x2xi64>"},
        {"3xf64"},
        "{batch_dims = 0 : i64}"},
       {"gather_nd", {"3x4xf64", "dense<[[2], [-1]]> : tensor<2x1xi64>"}, {"2x4xf64"}, "{batch_dims = 0 : i64}"},
       {"gather_nd", {"2x3x2xf64", "dense<[[0], [2]]> : tensor<2x1xi64>"}, {"2x2xf64"}, "{batch_dims = 1 : i64}"}});
}

void addScatters(Cases &cases) {
  // Indices that meet, where the reduction allows it.
  const std::string twice = "dense<[[0, 3, 3], [-1, 1, 3]]> : tensor<2x3xi64>";
  const std::string once = "dense<[[0, 3, 1], [-1, 1, 0]]> : tensor<2x3xi64>";
  for (const char *reduction : {"add", "min", "max", "mul"}) {
    const std::string named = "reduction = #graph<scatter_reduction " + std::string(reduction) + ">}";
    const std::string attributes = "{axis = 1 : i64, " + named;
    cases.push_back({"scatter_elements", {"2x4xf64", twice, "2x3xf64"}, {"2x4xf64"}, attributes, -2, 2, 0.3});
    cases.push_back({"scatter_nd",
                     {"3x2xf64", "dense<[[1], [-1], [1]]> : tensor<3x1xi32>", "3x2xf64"},
                     {"3x2xf64"},
                     "{" + named,
                     -2,
                     2,
                     0.3});
  }
  const std::string noneNd = "{reduction = #graph<scatter_reduction none>}",
                    none = "{axis = 1 : i64, " + noneNd.substr(1);
  const std::string noIndex = "dense<> : tensor<2x0xi64>", one = "dense<[1]> : tensor<1xi64>";
  cases.insert(cases.end(),
               {{"scatter_elements", {"2x4xf64", once, "2x3xf64"}, {"2x4xf64"}, none},
                {"scatter_elements", {"2x4xf64", noIndex, "2x0xf64"}, {"2x4xf64"}, none},
                {"scatter_elements", {"3xf64", one, "1xf64"}, {"3xf64"}, "{axis = 0 : i64, " + noneNd.substr(1)},
                {"scatter_nd", {"3x2xf64", "dense<[[0, 1], [2, 0]]> : tensor<2x2xi64>", "2xf64"}, {"3x2xf64"}, noneNd},
                {"scatter_nd", {"3x2xf64", one, "2xf64"}, {"3x2xf64"}, noneNd},
                {"scatter_nd", {"3xf64", "dense<> : tensor<0x1xi64>", "0xf64"}, {"3xf64"}, noneNd}});
}

void addOrders(Cases &cases) {
  cases.insert(cases.end(), {{"top_k", {"2x5xf64"}, {"2x3xf64", "2x3xi64"}, "{k = 3 : i64, axis = 1 : i64}"},
                             {"top_k", {"3x2xf64"}, {"1x2xf64", "1x2xi64"}, "{k = 1 : i64, axis = 0 : i64, smallest}"},
                             {"top_k", {"4xf64"}, {"0xf64", "0xi64"}, "{k = 0 : i64, axis = 0 : i64}"},
                             {"top_k", {"1xf64"}, {"1xf64", "1xi64"}, "{k = 1 : i64, axis = 0 : i64}"}});
  for (const char *flags : {"", ", exclusive", ", reverse", ", exclusive, reverse"}) {
    std::string rest = std::string(flags) + "}";
    for (const char *op : {"cumsum", "cumprod"}) {
      cases.push_back({op, {"2x3x2xf64"}, {"2x3x2xf64"}, "{axis = 1 : i64" + rest});
      cases.push_back({op, {"4xf64"}, {"4xf64"}, "{axis = 0 : i64" + rest});
      cases.push_back({op, {"3x0xf64"}, {"3x0xf64"}, "{axis = 1 : i64" + rest});
      cases.push_back({op, {"1x2xf64"}, {"1x2xf64"}, "{axis = 0 : i64" + rest});
    }
  }
}

void addReductions(Cases &cases) {
  cases.push_back({"reduce_prod", {"0x3xf64"}, {"3xf64"}, "{axes = array<i64: 0>}"});
  for (const char *op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    cases.push_back({op, {"2x3xf64"}, {"2xf64"}, "{axes = array<i64: 1>}"});
    cases.push_back({op, {"2x3x4xf64"}, {"1x3x1xf64"}, "{axes = array<i64: 0, 2>, keepdims}"});
    cases.push_back({op, {"3xf64"}, {"f64"}, "{axes = array<i64: 0>}"});
    cases.push_back({op, {"f64"}, {"f64"}, "{axes = array<i64>}"});
  }
  cases.push_back({"reduce_sum", {"0x3xf64"}, {"3xf64"}, "{axes = array<i64: 0>}"});
}

void addProducts(Cases &cases) {
  cases.insert(
      cases.end(),
      {{"matmul", {"2x3xf64", "3x4xf64"}, {"2x4xf64"}},
       {"matmul", {"2x3xf64", "4x3xf64", "4xf64"}, {"2x4xf64"}, "{trans_rhs}"},
       {"matmul", {"3x2xf64", "3x4xf64"}, {"2x4xf64"}, "{trans_lhs}"},
       {"matmul", {"3x2xf64", "4x3xf64"}, {"2x4xf64"}, "{trans_lhs, trans_rhs}"},
       {"matmul", {"2x5x3xf64", "3x4xf64", "4xf64"}, {"2x5x4xf64"}},           // a linear layer
       {"matmul", {"2x2x5x3xf64", "4x3xf64"}, {"2x2x5x4xf64"}, "{trans_rhs}"}, // torch's Linear
       {"matmul", {"2x3x2xf64", "3x4xf64"}, {"2x2x4xf64"}, "{trans_lhs}"},     // rhs shared by a batch of transposes
       {"matmul", {"2x3xf64", "5x3x4xf64", "4xf64"}, {"5x2x4xf64"}},           // lhs shared by the batch
       {"matmul", {"2x1x2x3xf64", "5x3x4xf64"}, {"2x5x2x4xf64"}},              // leading dimensions broadcast
       {"matmul", {"2x1x3x2xf64", "5x4x3xf64"}, {"2x5x2x4xf64"}, "{trans_lhs, trans_rhs}"},
       {"matmul", {"1x1xf64", "1x1xf64", "1xf64"}, {"1x1xf64"}},
       {"matmul", {"0x3xf64", "3x4xf64", "4xf64"}, {"0x4xf64"}}});
}

void addSoftmaxes(Cases &cases) {
  for (const char *op : {"softmax", "log_softmax"}) {
    cases.push_back({op, {"2x3xf64"}, {"2x3xf64"}, "{axis = 1 : i64}"});
    cases.push_back({op, {"2x3x2xf64"}, {"2x3x2xf64"}, "{axis = 1 : i64}"});
    cases.push_back({op, {"4xf64"}, {"4xf64"}, "{axis = 0 : i64, zero_masked}"});
    cases.push_back({op, {"2x1xf64"}, {"2x1xf64"}, "{axis = 1 : i64}"});
  }
}

void addNorms(Cases &cases) {
  const std::string attributes = "{axis = 1 : i64, epsilon = 1.0e-2 : f64}";
  cases.insert(
      cases.end(),
      {{"layer_norm", {"3x4xf64", "4xf64", "4xf64"}, {"3x4xf64", "3xf64", "3xf64"}, attributes},
       {"layer_norm", {"2x2x3xf64", "2x3xf64"}, {"2x2x3xf64", "2xf64", "2xf64"}, attributes},
       {"layer_norm", {"4xf64", "4xf64", "4xf64"}, {"4xf64", "f64", "f64"}, "{axis = 0 : i64, epsilon = 1.0e-2 : f64}"},
       {"layer_norm", {"3x1xf64", "1xf64", "1xf64"}, {"3x1xf64", "3xf64", "3xf64"}, attributes},
       {"rms_norm", {"3x4xf64", "4xf64"}, {"3x4xf64", "3xf64"}, attributes},
       {"rms_norm", {"2x2x3xf64", "2x3xf64"}, {"2x2x3xf64", "2xf64"}, attributes},
       {"rms_norm", {"4xf64", "4xf64"}, {"4xf64", "f64"}, "{axis = 0 : i64, epsilon = 1.0e-2 : f64}"},
       {"rms_norm", {"3x1xf64", "1xf64"}, {"3x1xf64", "3xf64"}, attributes}});
}

void addAttention(Cases &cases) {
  const std::string q = "1x2x3x4xf64", lse = "1x2x3xf64";
  // Row 1 is masked entirely: zeros, with zero gradient.
  const std::string rows =
      "dense<[[[[true, false, true], [false, false, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>";
  const std::string added = "dense<[[[[0.0, -1.0, 0.5]]]]> : tensor<1x1x1x3xf64>";
  cases.insert(cases.end(), {{"attention", {q, q, q}, {q, lse}, "{scale = 0.5 : f64}"},
                             {"attention", {q, q, q}, {q, lse}, "{scale = 0.5 : f64, causal}"},
                             {"attention", {q, q, q, rows}, {q, lse}, "{scale = 0.5 : f64}"},
                             {"attention", {q, q, q, added}, {q, lse}, "{scale = 0.7 : f64, causal}"},
                             // A mask that is trained.
                             {"attention", {q, q, q, "1x1x3x3xf64"}, {q, lse}, "{scale = 0.5 : f64}"},
                             {"attention", {q, q, q, "1x2x3x3xf64"}, {q, lse}, "{scale = 1.0 : f64, causal}"},
                             {"attention", {q, q, q, "1x2x1x3xf64"}, {q, lse}, "{scale = 0.5 : f64, causal}"},
                             {"attention",
                              {"2x4x2x3xf64", "2x2x5x3xf64", "2x2x5x1xf64", "1x4x2x5xf64"},
                              {"2x4x2x1xf64", "2x4x2xf64"},
                              "{scale = 1.0 : f64, causal}"},
                             // What is dropped; the second mask has its gradient from plain operations.
                             {"attention",
                              {q, q, q, "1x2x3x3xf64"},
                              {q, lse},
                              "{scale = 0.5 : f64, dropout = 0.3 : f64, dropout_id = 4 : i64}"},
                             {"attention",
                              {q, q, q, "1x2x1x3xf64"},
                              {q, lse},
                              "{scale = 0.5 : f64, causal, dropout = 0.3 : f64, dropout_id = 4 : i64}"},
                             // Grouped queries, another key length, another value size.
                             {"attention",
                              {"2x4x2x3xf64", "2x2x5x3xf64", "2x2x5x1xf64"},
                              {"2x4x2x1xf64", "2x4x2xf64"},
                              "{scale = 1.0 : f64, causal}"},
                             {"attention",
                              {"1x1x1x1xf64", "1x1x1x1xf64", "1x1x1x1xf64"},
                              {"1x1x1x1xf64", "1x1x1xf64"},
                              "{scale = 1.0 : f64}"}});
}

void addLosses(Cases &cases) {
  const std::string labels = "dense<[2, -100, 0]> : tensor<3xi64>";
  cases.insert(
      cases.end(),
      {{"cross_entropy", {"3x4xf64", labels}, {"f64", "3xf64"}, "{ignore_index = -100 : i64}"},
       {"cross_entropy", {"3x4xf64", labels}, {"f64", "3xf64"}, "{ignore_index = -100 : i64, sum}"},
       {"cross_entropy", {"1x2xf64", "dense<1> : tensor<1xi32>"}, {"f64", "1xf64"}, "{ignore_index = 0 : i64}"},
       // Rows in chunks of 2 and 1, a weight of either order, with and without bias.
       {"linear_cross_entropy",
        {"3x5xf64", labels, "4x5xf64"},
        {"f64"},
        "{trans_weight, ignore_index = -100 : i64, chunk = 2 : i64}"},
       {"linear_cross_entropy",
        {"3x5xf64", labels, "5x4xf64", "4xf64"},
        {"f64"},
        "{ignore_index = -100 : i64, sum, chunk = 1 : i64}"},
       {"linear_cross_entropy",
        {"3x5xf64", labels, "4x5xf64", "4xf64"},
        {"f64"},
        "{trans_weight, ignore_index = -100 : i64, chunk = 2 : i64, cap = 1.5 : f64}"},
       {"linear_log_softmax",
        {"3x5xf64", "dense<[2, -1, 0]> : tensor<3xi64>", "dense<[0.5, 0.1, -0.2, 0.0]> : tensor<4xf64>", "4x5xf64"},
        {"3xf64", "3xf64"},
        "{trans_weight, chunk = 2 : i64}"},
       {"linear_log_softmax",
        {"3x5xf64", "dense<[2, 1, 0]> : tensor<3xi32>", "dense<0.25> : tensor<4xf64>", "5x4xf64", "4xf64"},
        {"3xf64", "3xf64"},
        "{chunk = 2 : i64, cap = 1.5 : f64}"},
       {"linear_log_softmax",
        {"1x1xf64", "dense<1> : tensor<1xi32>", "dense<[0.0, 0.5]> : tensor<2xf64>", "1x2xf64"},
        {"1xf64", "1xf64"},
        "{chunk = 7 : i64}"},
       {"linear_cross_entropy",
        {"1x1xf64", "dense<1> : tensor<1xi32>", "1x2xf64"},
        {"f64"},
        "{ignore_index = 0 : i64, chunk = 7 : i64}"},
       {"dropout", {"4x8xf64"}, {"4x8xf64", "4x8xi1"}, "{ratio = 0.5 : f64, id = 3 : i64}"},
       {"dropout", {"f64"}, {"f64", "i1"}, "{ratio = 0.25 : f64, id = 0 : i64}"},
       {"dropout", {"1x7xf64"}, {"1x7xf64", "1x7xi1"}, "{ratio = 0.0 : f64, id = 1 : i64}"}});
}

/// Window attributes over one or more spatial dimensions.
std::string windows(const char *strides, const char *dilations, const char *low, const std::string &rest) {
  return std::string("{strides = array<i64: ") + strides + ">, dilations = array<i64: " + dilations +
         ">, low = array<i64: " + low + ">, " + rest + "}";
}

void addConvolutions(Cases &cases) {
  const std::string high1 = "high = array<i64: 1>, groups = ";
  cases.insert(
      cases.end(),
      {{"conv", {"2x3x5xf64", "4x3x3xf64", "4xf64"}, {"2x4x5xf64"}, windows("1", "1", "1", high1 + "1 : i64")},
       {"conv", {"1x2x7xf64", "2x1x2xf64"}, {"1x2x4xf64"}, windows("2", "2", "1", high1 + "2 : i64")},
       {"conv",
        {"2x2x4x5xf64", "4x1x2x3xf64", "4xf64"},
        {"2x4x3x2xf64"},
        windows("1, 2", "1, 1", "0, 1", "high = array<i64: 0, 0>, groups = 2 : i64")},
       {"conv",
        {"1x1x3x2x4xf64", "2x1x2x2x3xf64"},
        {"1x2x2x1x2xf64"},
        windows("1, 2, 3", "1, 1, 1", "0, 0, 1", "high = array<i64: 0, 0, 1>, groups = 1 : i64")},
       {"conv",
        {"1x2x5x5xf64", "3x2x1x1xf64"},
        {"1x3x2x4xf64"},
        windows("2, 1", "1, 1", "-1, 0", "high = array<i64: 0, -1>, groups = 1 : i64")},
       {"conv",
        {"2x4x5x2xf64", "4x1x2x3xf64", "4xf64"},
        {"2x3x2x4xf64"},
        windows("1, 2", "1, 1", "0, 1", "high = array<i64: 0, 0>, groups = 2 : i64, channels_last")},
       {"conv", {"0x3x5xf64", "4x3x3xf64", "4xf64"}, {"0x4x5xf64"}, windows("1", "1", "1", high1 + "1 : i64")},
       {"conv_transpose",
        {"2x4x3xf64", "4x3x3xf64", "3xf64"},
        {"2x3x6xf64"},
        windows("2", "1", "1", high1 + "1 : i64, sizes = array<i64: 6>")},
       {"conv_transpose",
        {"2x3x4xf64", "4x3x3xf64", "3xf64"},
        {"2x6x3xf64"},
        windows("2", "1", "1", high1 + "1 : i64, sizes = array<i64: 6>, channels_last")},
       {"conv_transpose",
        {"1x4x2x2xf64", "4x1x3x2xf64", "2xf64"},
        {"1x2x4x3xf64"},
        windows("1, 1", "1, 1", "0, 0", "high = array<i64: 0, 0>, groups = 2 : i64, sizes = array<i64: 4, 3>")},
       {"conv_transpose",
        {"1x1x2x1x2xf64", "1x2x1x2x2xf64"},
        {"1x2x3x3x3xf64"},
        windows("2, 1, 1", "1, 2, 1", "0, 0, 0",
                "high = array<i64: 0, 0, 0>, groups = 1 : i64, sizes = array<i64: 3, 3, 3>")}});
}

void addPools(Cases &cases) {
  for (const char *op : {"max_pool", "sum_pool"}) {
    bool isMax = op[0] == 'm';
    auto add = [&](const char *input, const std::string &result, const std::string &attributes) {
      std::vector<std::string> results{result + "xf64"};
      if (isMax)
        results.push_back(result + "xi32");
      cases.push_back({op, {input}, results, attributes});
    };
    add("2x3x8xf64", "2x3x4", windows("2", "1", "1", "kernel = array<i64: 3>, sizes = array<i64: 4>"));
    add("1x2x5x4xf64", "1x2x2x3",
        windows("2, 1", "2, 1", "0, 0", "kernel = array<i64: 2, 2>, sizes = array<i64: 2, 3>"));
    add("1x5x4x2xf64", "1x2x3x2",
        windows("2, 1", "2, 1", "0, 0", "kernel = array<i64: 2, 2>, sizes = array<i64: 2, 3>, channels_last"));
    add("1x1x2x3x1xf64", "1x1x2x2x1",
        windows("1, 2, 1", "1, 1, 1", "1, 0, 0", "kernel = array<i64: 2, 2, 1>, sizes = array<i64: 2, 2, 1>"));
    add("1x2x0xf64", "1x2x0", windows("1", "1", "0", "kernel = array<i64: 1>, sizes = array<i64: 0>"));
  }
}

void addBatchNorms(Cases &cases) {
  const std::string epsilon = "{epsilon = 1.0e-2 : f64}", mean = "dense<[0.1, -0.5, 0.3]> : tensor<3xf64>",
                    variance = "dense<[1.0, 0.5, 2.0]> : tensor<3xf64>";
  struct Shape {
    const char *input, *channels;
  };
  for (const Shape &s : {Shape{"2x3x4xf64", "3xf64"}, Shape{"4x2xf64", "2xf64"}, Shape{"1x2x3x2xf64", "2xf64"},
                         Shape{"3x1x1xf64", "1xf64"}})
    cases.push_back({"batch_norm", {s.input, s.channels, s.channels}, {s.input, s.channels, s.channels}, epsilon});
  const std::string last = "{epsilon = 1.0e-2 : f64, channels_last}";
  cases.push_back({"batch_norm", {"2x4x3xf64", "3xf64", "3xf64"}, {"2x4x3xf64", "3xf64", "3xf64"}, last});
  cases.push_back(
      {"batch_norm_apply", {"1x2x2x3xf64", "3xf64", "3xf64", "3xf64", "3xf64"}, {"1x2x2x3xf64"}, last, 0.5, 2});
  for (const char *input : {"2x3x4xf64", "4x3xf64", "1x3x2x2xf64", "0x3x2xf64"})
    cases.push_back({"batch_norm_apply", {input, "3xf64", "3xf64", mean, variance}, {input}, epsilon});
  for (const char *input : {"2x3x4xf64", "4x3xf64", "1x3x1xf64"}) // statistics that are computed
    cases.push_back({"batch_norm_apply", {input, "3xf64", "3xf64", "3xf64", "3xf64"}, {input}, epsilon, 0.5, 2});
}

void addGroupNorms(Cases &cases) {
  struct Shape {
    const char *input, *channels, *statistics, *attributes;
  };
  for (const Shape &s : {Shape{"2x4x3xf64", "4xf64", "2x2xf64", "groups = 2 : i64"},
                         Shape{"3x4xf64", "4xf64", "3x1xf64", "groups = 1 : i64"},
                         Shape{"1x3x2x2xf64", "3xf64", "1x3xf64", "groups = 3 : i64"},
                         Shape{"2x3x4xf64", "4xf64", "2x2xf64", "groups = 2 : i64, channels_last"}})
    cases.push_back({"group_norm",
                     {s.input, s.channels, s.channels},
                     {s.input, s.statistics, s.statistics},
                     "{epsilon = 1.0e-2 : f64, " + std::string(s.attributes) + "}"});
}

/// Operations that are gradients: second derivatives.
void addGradients(Cases &cases) {
  for (const std::string &shape : shapes) {
    cases.push_back({"silu_grad", {shape, shape}, {shape}});
    cases.push_back({"gelu_grad", {shape, shape}, {shape}});
    cases.push_back({"gelu_grad", {shape, shape}, {shape}, "{tanh}"});
  }
  for (const char *op : {"softmax_grad", "log_softmax_grad"}) {
    cases.push_back({op, {"2x3xf64", "2x3xf64"}, {"2x3xf64"}, "{axis = 1 : i64}"});
    cases.push_back({op, {"2x3x2xf64", "2x3x2xf64"}, {"2x3x2xf64"}, "{axis = 1 : i64}"});
    cases.push_back({op, {"4xf64", "4xf64"}, {"4xf64"}, "{axis = 0 : i64}"});
  }
  const std::string mask = "dense<[[true, false, true]]> : tensor<1x3xi1>";
  cases.push_back({"dropout_grad", {"1x3xf64", mask}, {"1x3xf64"}, "{ratio = 0.5 : f64}"});
  cases.push_back({"dropout_grad", {"f64", "dense<false> : tensor<i1>"}, {"f64"}, "{ratio = 0.25 : f64}"});
  cases.push_back({"dropout_grad", {"0xf64", "dense<> : tensor<0xi1>"}, {"0xf64"}, "{ratio = 0.0 : f64}"});
  const std::string slice = "offsets = array<i64: 4, 0>, strides = array<i64: -2, 1>}";
  cases.push_back({"slice_grad", {"2x3xf64"}, {"5x3xf64"}, "{shape = array<i64: 5, 3>, " + slice});
  cases.push_back({"slice_grad", {"1x0xf64"}, {"5x2xf64"}, "{shape = array<i64: 5, 2>, " + slice});
  cases.push_back({"slice_grad", {"f64"}, {"f64"}, "{shape = array<i64>, offsets = array<i64>, strides = array<i64>}"});
}

void addGradientsOfGathers(Cases &cases) {
  const std::string twice = "dense<[1, 1, -1]> : tensor<3xi64>", pairs = "dense<[[0, 3], [3, 3]]> : tensor<2x2xi32>";
  cases.insert(
      cases.end(),
      {{"gather_grad", {"3x3xf64", twice}, {"4x3xf64"}, "{shape = array<i64: 4, 3>, axis = 0 : i64}"},
       {"gather_grad", {"2x2x2xf64", pairs}, {"2x4xf64"}, "{shape = array<i64: 2, 4>, axis = 1 : i64}"},
       {"gather_grad", {"3x3xf64", twice, "4x3xf64"}, {"4x3xf64"}, "{shape = array<i64: 4, 3>, axis = 0 : i64}"},
       {"gather_elements_grad",
        {"2x3xf64", "dense<[[0, 3, 3], [-1, 1, 3]]> : tensor<2x3xi64>"},
        {"2x4xf64"},
        "{shape = array<i64: 2, 4>, axis = 1 : i64}"},
       {"gather_elements_grad", {"3xf64", twice}, {"2xf64"}, "{shape = array<i64: 2>, axis = 0 : i64}"},
       {"gather_elements_grad",
        {"1x2xf64", "dense<[[1, 0]]> : tensor<1x2xi64>"},
        {"3x2xf64"},
        "{shape = array<i64: 3, 2>, axis = 0 : i64}"},
       {"gather_nd_grad",
        {"3xf64", "dense<[[0, 1], [2, 3], [0, 1]]> : tensor<3x2xi64>"},
        {"3x4xf64"},
        "{shape = array<i64: 3, 4>, batch_dims = 0 : i64}"},
       {"gather_nd_grad",
        {"2x4xf64", "dense<[[2], [-1]]> : tensor<2x1xi64>"},
        {"3x4xf64"},
        "{shape = array<i64: 3, 4>, batch_dims = 0 : i64}"},
       {"gather_nd_grad",
        {"2x2xf64", "dense<[[0], [2]]> : tensor<2x1xi64>"},
        {"2x3x2xf64"},
        "{shape = array<i64: 2, 3, 2>, batch_dims = 1 : i64}"}});
}

void addGradientsOfWindows(Cases &cases) {
  const std::string high1 = "high = array<i64: 1>, groups = ";
  cases.insert(
      cases.end(),
      {{"conv_weight_grad",
        {"2x3x5xf64", "2x4x5xf64"},
        {"4x3x3xf64"},
        windows("1", "1", "1", high1 + "1 : i64, kernel = array<i64: 3>")},
       {"conv_weight_grad",
        {"1x2x7xf64", "1x2x4xf64"},
        {"2x1x2xf64"},
        windows("2", "2", "1", high1 + "2 : i64, kernel = array<i64: 2>")},
       {"conv_weight_grad",
        {"2x4x5x2xf64", "2x3x2x4xf64"},
        {"4x1x2x3xf64"},
        windows("1, 2", "1, 1", "0, 1",
                "high = array<i64: 0, 0>, groups = 2 : i64, kernel = array<i64: 2, 3>, channels_last")},
       {"sum_pool_grad",
        {"2x3x4xf64"},
        {"2x3x8xf64"},
        windows("2", "1", "1", "kernel = array<i64: 3>, shape = array<i64: 2, 3, 8>")},
       {"sum_pool_grad",
        {"1x2x2x3xf64"},
        {"1x2x5x4xf64"},
        windows("2, 1", "2, 1", "0, 0", "kernel = array<i64: 2, 2>, shape = array<i64: 1, 2, 5, 4>")},
       {"sum_pool_grad",
        {"1x2x3x2xf64"},
        {"1x5x4x2xf64"},
        windows("2, 1", "2, 1", "0, 0", "kernel = array<i64: 2, 2>, shape = array<i64: 1, 5, 4, 2>, channels_last")},
       {"max_pool_grad",
        {"1x2x3xf64", "dense<[[[0, 2, 2], [3, 1, -1]]]> : tensor<1x2x3xi32>"},
        {"1x2x4xf64"},
        "{shape = array<i64: 1, 2, 4>}"},
       {"max_pool_grad",
        {"1x1x1x2xf64", "dense<[[[[5, 3]]]]> : tensor<1x1x1x2xi32>"},
        {"1x1x2x3xf64"},
        "{shape = array<i64: 1, 1, 2, 3>}"},
       {"max_pool_grad",
        {"1x2x0xf64", "dense<> : tensor<1x2x0xi32>"},
        {"1x2x0xf64"},
        "{shape = array<i64: 1, 2, 0>}"}});
}

} // namespace

std::vector<Case> allCases() {
  Cases cases;
  for (auto add : {addUnary, addBinary, addMoves, addGathers, addScatters, addOrders, addReductions, addProducts,
                   addSoftmaxes, addNorms, addAttention, addLosses, addConvolutions, addPools, addBatchNorms,
                   addGroupNorms, addGradients, addGradientsOfGathers, addGradientsOfWindows})
    add(cases);
  return cases;
}

} // namespace zc::test
