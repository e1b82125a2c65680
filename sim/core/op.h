#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/base/interface.h"
#include "sim/core/op_types.h"
#include "sim/core/statistics.h"

namespace periscope {

/// The dtype of an op's output.
enum class OutputType { requested, of_inputs, f64 };
inline constexpr std::array<std::string_view, 3> output_type_names{"requested", "of inputs", "f64"};
static_assert(are_names_of<OutputType>(output_type_names));

/// The dtype in which an op accumulates its longest sum; in_dtype means compute_dtype(dtype).
enum class Accumulation { none, in_dtype, in_double };
inline constexpr std::array<std::string_view, 3> accumulation_names{"none", "dtype", "double"};
static_assert(are_names_of<Accumulation>(accumulation_names));

struct OpFacts {
  std::string_view name;
  std::string_view shapes;  ///< shapes of inputs and outputs; N is the number of rows
  std::string_view formula;
  OutputType output = OutputType::of_inputs;
  Accumulation accumulation = Accumulation::none;
};

/// Each op is a struct of validated arguments and references to allocated outputs. An output may share its buffer with
/// an input that the corresponding Backend function takes by value.
namespace op {

using enum OutputType;
using enum Accumulation;

struct Constant {
  static constexpr OpFacts facts{"constant", "-> [rows, cols]", "every entry equal to value", requested};
  double value;
  Tensor& y;
};

struct FromHost {
  static constexpr OpFacts facts{"from_host", "values -> [rows, cols]", "row-major values, rounded to the dtype",
                                 requested};
  std::span<const double> values;
  Tensor& y;
};

struct FromRows {
  static constexpr OpFacts facts{"from_rows", "blocks of rows -> [rows, cols]",
                                 "values from a callback that fills blocks of rows, rounded to the dtype", requested};
  const FillRows& fill;
  Tensor& y;
};

struct ToHost {
  static constexpr OpFacts facts{"to_host", "x [N, D] -> N*D numbers", "the values", f64};
  std::span<const Tensor> tensors;
  std::vector<std::vector<double>>& values;
};

struct Normal {
  static constexpr OpFacts facts{"normal", "-> [rows, cols]", "independent N(0, stddev^2) from a stream", requested};
  StreamKey key;
  double stddev;
  Tensor& y;
};

struct Cast {
  static constexpr OpFacts facts{"cast", "x [N, D] -> [N, D]", "the values of x, rounded to the dtype", requested};
  const Tensor& x;
  Tensor& y;
};

struct Linear {
  static constexpr OpFacts facts{"linear", "x [N, in], w [out, in] -> [N, out]", "x w^T", of_inputs, in_dtype};
  const Tensor &x, &w;
  Tensor& y;
};

struct LinearBackwardInput {
  static constexpr OpFacts facts{"linear_backward_input", "dy [N, out], w [out, in] -> [N, in]", "dy w", of_inputs,
                                 in_dtype};
  const Tensor &dy, &w;
  Tensor& dx;
};

struct LinearBackwardWeight {
  static constexpr OpFacts facts{"linear_backward_weight", "dy [N, out], x [N, in] -> [out, in]", "dy^T x", of_inputs,
                                 in_dtype};
  const Tensor &dy, &x;
  Tensor& dw;
};

struct LinearWeightSquare {
  static constexpr OpFacts facts{"linear_weight_square", "dy [N, out], x [N, in] -> [1, 1]",
                                 "sum of the squares of dy^T x", f64, in_dtype};
  const Tensor &dy, &x;
  Tensor& square;
};

struct LinearDrawn {
  static constexpr OpFacts facts{"linear_drawn", "x [N, in], w [out, in] drawn as by normal -> [N, out]", "x w^T",
                                 of_inputs, in_dtype};
  const Tensor& x;
  const DrawnMatrix& w;
  Tensor& y;
};

struct LinearDrawnBackwardInput {
  static constexpr OpFacts facts{"linear_drawn_backward_input", "dy [N, out], w [out, in] drawn -> [N, in]", "dy w",
                                 of_inputs, in_dtype};
  const Tensor& dy;
  const DrawnMatrix& w;
  Tensor& dx;
};

struct Axpby {
  static constexpr OpFacts facts{"axpby", "x [N, D], y [N, D] -> [N, D]", "a x + b y"};
  double a;
  const Tensor& x;
  double b;
  const Tensor& y;
  Tensor& z;
};

struct Scale {
  static constexpr OpFacts facts{"scale", "x [N, D] -> [N, D]", "a x"};
  double a;
  const Tensor& x;
  Tensor& y;
};

struct Multiply {
  static constexpr OpFacts facts{"multiply", "x [N, D], y [N, D] -> [N, D]", "x_ij y_ij"};
  const Tensor &x, &y;
  Tensor& z;
};

struct AddRow {
  static constexpr OpFacts facts{"add_row", "x [N, D], row [1, D] -> [N, D]", "x_ij + row_j"};
  const Tensor &x, &row;
  Tensor& y;
};

struct ColumnSums {
  static constexpr OpFacts facts{"column_sums", "x [N, D] -> [1, D]", "sum over i of x_ij", of_inputs, in_double};
  const Tensor& x;
  Tensor& sums;
};

struct Gather {
  static constexpr OpFacts facts{"gather", "table [V, D], ids [N] -> [N, D]", "rows ids of the table"};
  const Tensor& table;
  std::span<const int> ids;
  Tensor& y;
};

struct ReplaceRows {
  static constexpr OpFacts facts{"replace_rows", "x [N, D], rows [n, D] -> [N, D]",
                                 "x with n consecutive rows replaced"};
  const Tensor& x;
  Tensor::Index first;
  const Tensor& rows;
  Tensor& y;
};

struct ScatterAdd {
  static constexpr OpFacts facts{"scatter_add", "dy [N, D], ids [N] -> [rows, D]",
                                 "row v: sum of the dy_t with ids_t = v", of_inputs, in_dtype};
  const Tensor& dy;
  std::span<const int> ids;
  Tensor& sums;
};

struct RowBasis {
  static constexpr OpFacts facts{"row_basis", "x [N, D] -> lower [N, N], basis [N, D]",
                                 "x = lower * basis: lower triangular, basis orthonormal", of_inputs, in_double};
  const Tensor& x;
  periscope::RowBasis& b;
};

struct Activate {
  static constexpr OpFacts facts{"activate", "x [N, D] -> [N, D]", "phi(x)"};
  Activation kind;
  const Tensor& x;
  Tensor& y;
};

struct ActivateBackward {
  static constexpr OpFacts facts{"activate_backward", "x [N, D], dy [N, D] -> [N, D]", "phi'(x) dy"};
  Activation kind;
  const Tensor &x, &dy;
  Tensor& dx;
};

struct Gated {
  static constexpr OpFacts facts{"gated", "gate [N, D], up [N, D] -> [N, D]", "phi(gate) up"};
  Activation kind;
  const Tensor &gate, &up;
  Tensor& y;
};

struct GatedBackward {
  static constexpr OpFacts facts{"gated_backward", "gate, up, dy [N, D] -> dgate, dup [N, D]",
                                 "phi'(gate) up dy, phi(gate) dy"};
  Activation kind;
  const Tensor &gate, &up, &dy;
  GatedGradient& g;
};

struct SoftCap {
  static constexpr OpFacts facts{"soft_cap", "x [N, D] -> [N, D]", "cap tanh(x/cap)"};
  double cap;
  const Tensor& x;
  Tensor& y;
};

struct SoftCapBackward {
  static constexpr OpFacts facts{"soft_cap_backward", "x [N, D], dy [N, D] -> [N, D]", "dy (1 - tanh^2(x/cap))"};
  double cap;
  const Tensor &x, &dy;
  Tensor& dx;
};

struct Norm {
  static constexpr OpFacts facts{
      "norm", "x [N, groups*n], gain [1, n], bias [1, n] or none, alpha [1, 1] or none -> [N, groups*n]",
      "gain (x - mean)/sqrt(var + eps) + bias; RMSNorm subtracts no mean", of_inputs, in_double};
  NormKind kind;
  const Tensor &x, &gain, &bias, &alpha;
  double eps;
  Tensor& y;
};

struct NormBackward {
  static constexpr OpFacts facts{
      "norm_backward",
      "x, dy [N, groups*n], gain [1, n], alpha [1, 1] or none -> dx [N, groups*n], dgain, dbias [1, n], dalpha",
      "gradients of norm", of_inputs, in_double};
  NormKind kind;
  const Tensor &x, &gain, &alpha, &dy;
  double eps;
  NormGradient& g;
};

struct Rope {
  static constexpr OpFacts facts{"rope", "x [sequences*T, heads*e], frequencies [e/2] -> same shape",
                                 "pairs (i, i + e/2) rotated by t f_i"};
  const Tensor& x;
  int heads, sequences;
  std::span<const double> frequencies;
  Tensor::Index offset;
  Tensor& y;
};

struct RopeBackward {
  static constexpr OpFacts facts{"rope_backward", "dy [sequences*T, heads*e], frequencies [e/2] -> same shape",
                                 "the inverse rotation"};
  const Tensor& dy;
  int heads, sequences;
  std::span<const double> frequencies;
  Tensor& dx;
};

struct Attention {
  static constexpr OpFacts facts{"attention",
                                 "q [N, heads*e], k, v [N, kv_heads*e] -> mixed [N, heads*e], scores [N, heads]",
                                 "softmax(z) v and max |z|, z = q.k/sqrt(e)", of_inputs, in_dtype};
  const Tensor &q, &k, &v;
  const AttentionShape& shape;
  AttentionOutput& a;
};

struct AttentionBackward {
  static constexpr OpFacts facts{"attention_backward", "q, dy [N, heads*e], k, v [N, kv_heads*e] -> dq, dk, dv",
                                 "gradients of attention", of_inputs, in_dtype};
  const Tensor &q, &k, &v, &dy;
  const AttentionShape& shape;
  AttentionGradient& g;
};

struct CrossEntropy {
  static constexpr OpFacts facts{"cross_entropy", "logits [N, V], labels [N] -> loss, dlogits [N, V]",
                                 "-mean log softmax, (p - onehot)/N", of_inputs, in_double};
  const Tensor& logits;
  std::span<const int> labels;
  periscope::CrossEntropy& out;
};

struct TokenLosses {
  static constexpr OpFacts facts{"token_losses", "logits [N, V], labels [N] -> N numbers", "-log softmax of the label",
                                 f64, in_double};
  const Tensor& logits;
  std::span<const int> labels;
  Tensor& losses;
};

struct Adamw {
  static constexpr OpFacts facts{"adamw", "parameter, mean, square, gradient [N, D] -> parameter, mean, square",
                                 "AdamW step: decay, then -rate mean/(sqrt(square) + eps), bias-corrected"};
  AdamState& state;
  const Tensor& gradient;
  const AdamRule& rule;
};

struct Measure {
  static constexpr OpFacts facts{"measure", "x [N, D] -> requested statistics",
                                 "moments, dots, cosine, extremes (sim/core/statistics.h)", f64, in_double};
  const Tensor& x;
  const StatisticsRequest& request;
  const StatisticsLayout& layout;
  Tensor& numbers;
};

}  // namespace op

template <class... Ops>
struct OpList {};

/// All ops, in the order used in tables and tests.
using AllOps =
    OpList<op::Constant, op::FromHost, op::FromRows, op::ToHost, op::Normal, op::Cast, op::Linear,
           op::LinearBackwardInput, op::LinearBackwardWeight, op::LinearWeightSquare, op::LinearDrawn,
           op::LinearDrawnBackwardInput, op::Axpby, op::Scale, op::Multiply, op::AddRow, op::ColumnSums, op::Gather,
           op::ReplaceRows, op::ScatterAdd, op::RowBasis, op::Activate, op::ActivateBackward, op::Gated,
           op::GatedBackward, op::SoftCap, op::SoftCapBackward, op::Norm, op::NormBackward, op::Rope, op::RopeBackward,
           op::Attention, op::AttentionBackward, op::CrossEntropy, op::TokenLosses, op::Adamw, op::Measure>;

template <class... Ops>
constexpr std::array<OpFacts, sizeof...(Ops)> facts_of(OpList<Ops...> /*ops*/) {
  return {Ops::facts...};
}
/// One row per op. `periscope list` prints it. A test checks that every op has a test.
inline constexpr auto op_table = facts_of(AllOps{});

/// Declares a virtual run() for every op of a list.
template <class List>
class OpRunner;
template <>
class OpRunner<OpList<>> : public Interface {
 public:
  void run() const {}
};
template <class First, class... Rest>
class OpRunner<OpList<First, Rest...>> : public OpRunner<OpList<Rest...>> {
 public:
  using OpRunner<OpList<Rest...>>::run;
  virtual void run(const First& op) const = 0;
};

}  // namespace periscope
