#include "sim/core/op_table.h"

#include <array>
#include <cstddef>

#include "sim/base/enumerators.h"

namespace periscope {
namespace {

using enum OutputType;
using enum Accumulation;

// clang-format off
constexpr std::array table{std::to_array<OpRow>({
    {Op::constant, "constant", "-> [rows, cols]",
     "one value everywhere", requested, none},
    {Op::from_host, "from_host", "values -> [rows, cols]",
     "row-major values, rounded to the dtype", requested, none},
    {Op::from_rows, "from_rows", "values by pieces -> [rows, cols]",
     "the same from a source that is asked for some rows at a time", requested, none},
    {Op::to_host, "to_host", "x [N, D] -> N*D numbers",
     "the values", f64, none},
    {Op::normal, "normal", "-> [rows, cols]",
     "independent N(0, stddev^2) from a stream", requested, none},
    {Op::cast, "cast", "x [N, D] -> [N, D]",
     "the values of x, rounded to the dtype", requested, none},
    {Op::linear, "linear", "x [N, in], w [out, in] -> [N, out]",
     "x w^T", of_inputs, in_dtype},
    {Op::linear_backward_input, "linear_backward_input", "dy [N, out], w [out, in] -> [N, in]",
     "dy w", of_inputs, in_dtype},
    {Op::linear_backward_weight, "linear_backward_weight", "dy [N, out], x [N, in] -> [out, in]",
     "dy^T x", of_inputs, in_dtype},
    {Op::linear_weight_square, "linear_weight_square", "dy [N, out], x [N, in] -> [1, 1]",
     "sum of the squares of dy^T x", f64, in_dtype},
    {Op::linear_drawn, "linear_drawn", "x [N, in], w [out, in] drawn as by normal -> [N, out]",
     "x w^T", of_inputs, in_dtype},
    {Op::linear_drawn_backward_input, "linear_drawn_backward_input", "dy [N, out], w [out, in] drawn -> [N, in]",
     "dy w", of_inputs, in_dtype},
    {Op::axpby, "axpby", "x [N, D], y [N, D] -> [N, D]",
     "a x + b y", of_inputs, none},
    {Op::scale, "scale", "x [N, D] -> [N, D]",
     "a x", of_inputs, none},
    {Op::multiply, "multiply", "x [N, D], y [N, D] -> [N, D]",
     "x_ij y_ij", of_inputs, none},
    {Op::add_row, "add_row", "x [N, D], row [1, D] -> [N, D]",
     "x_ij + row_j", of_inputs, none},
    {Op::column_sums, "column_sums", "x [N, D] -> [1, D]",
     "sum over i of x_ij", of_inputs, in_double},
    {Op::gather, "gather", "table [V, D], ids [N] -> [N, D]",
     "rows ids of the table", of_inputs, none},
    {Op::replace_rows, "replace_rows", "x [N, D], rows [n, D] -> [N, D]",
     "x with rows in the place of n of its own", of_inputs, none},
    {Op::scatter_add, "scatter_add", "dy [N, D], ids [N] -> [rows, D]",
     "row v: sum of the dy_t with ids_t = v", of_inputs, in_dtype},
    {Op::row_basis, "row_basis", "x [N, D] -> lower [N, N], basis [N, D]",
     "x = lower basis, lower triangular, basis orthonormal", of_inputs, in_double},
    {Op::activate, "activate", "x [N, D] -> [N, D]",
     "phi(x)", of_inputs, none},
    {Op::activate_backward, "activate_backward", "x [N, D], dy [N, D] -> [N, D]",
     "phi'(x) dy", of_inputs, none},
    {Op::gated, "gated", "gate [N, D], up [N, D] -> [N, D]",
     "phi(gate) up", of_inputs, none},
    {Op::gated_backward, "gated_backward", "gate, up, dy [N, D] -> dgate, dup [N, D]",
     "phi'(gate) up dy, phi(gate) dy", of_inputs, none},
    {Op::soft_cap, "soft_cap", "x [N, D] -> [N, D]",
     "cap tanh(x/cap)", of_inputs, none},
    {Op::soft_cap_backward, "soft_cap_backward", "x [N, D], dy [N, D] -> [N, D]",
     "dy (1 - tanh^2(x/cap))", of_inputs, none},
    {Op::norm, "norm", "x [N, groups*n], gain [1, n], bias [1, n] or none, alpha [1, 1] or none -> [N, groups*n]",
     "gain (x - mean)/sqrt(var + eps) + bias; RMSNorm without mean", of_inputs, in_double},
    {Op::norm_backward, "norm_backward", "x, dy [N, groups*n], gain [1, n], alpha [1, 1] or none -> dx [N, groups*n], dgain, dbias [1, n], dalpha",
     "gradients of norm", of_inputs, in_double},
    {Op::rope, "rope", "x [sequences*T, heads*e], frequencies [e/2] -> the same",
     "pairs (i, i + e/2) turned by t f_i", of_inputs, none},
    {Op::rope_backward, "rope_backward", "dy [sequences*T, heads*e], frequencies [e/2] -> the same",
     "the inverse rotation", of_inputs, none},
    {Op::attention, "attention", "q [N, heads*e], k, v [N, kv_heads*e] -> mixed [N, heads*e], scores [N, heads]",
     "softmax(z) v and max |z|, z = q.k/sqrt(e)", of_inputs, in_dtype},
    {Op::attention_backward, "attention_backward", "q, dy [N, heads*e], k, v [N, kv_heads*e] -> dq, dk, dv",
     "gradients of attention", of_inputs, in_dtype},
    {Op::cross_entropy, "cross_entropy", "logits [N, V], labels [N] -> loss, dlogits [N, V]",
     "-mean log softmax, (p - onehot)/N", of_inputs, in_double},
    {Op::token_losses, "token_losses", "logits [N, V], labels [N] -> N numbers",
     "-log softmax of the label", f64, in_double},
    {Op::adamw, "adamw", "parameter, mean, square, gradient [N, D] -> parameter, mean, square",
     "a step of AdamW: decay, then -rate mean/(sqrt(square) + eps), both freed of their start at 0", of_inputs, none},
    {Op::measure, "measure", "x [N, D] -> the statistics asked for",
     "moments, dots, cosine, extremes (sim/core/statistics.h)", f64, in_double},
})};
// clang-format on

static_assert(are_rows_of(table, &OpRow::op), "one row per op, in the order of Op");

}  // namespace

std::span<const OpRow> op_table() { return table; }

std::string_view name_of(Op op) { return table[static_cast<std::size_t>(op)].name; }

std::string_view name_of(OutputType output) {
  switch (output) {
    case requested: return "requested";
    case of_inputs: return "of inputs";
    case f64: return "f64";
  }
  return {};
}

std::string_view name_of(Accumulation accumulation) {
  switch (accumulation) {
    case none: return "none";
    case in_dtype: return "dtype";
    case in_double: return "double";
  }
  return {};
}

}  // namespace periscope
