#pragma once

#include <span>
#include <string_view>

namespace periscope {

/// Every op of Backend, in the order of its table.
enum class Op {
  constant,
  from_host,
  from_rows,
  to_host,
  normal,
  cast,
  linear,
  linear_backward_input,
  linear_backward_weight,
  linear_weight_square,
  linear_drawn,
  linear_drawn_backward_input,
  axpby,
  scale,
  multiply,
  add_row,
  column_sums,
  gather,
  replace_rows,
  scatter_add,
  row_basis,
  activate,
  activate_backward,
  gated,
  gated_backward,
  soft_cap,
  soft_cap_backward,
  norm,
  norm_backward,
  rope,
  rope_backward,
  attention,
  attention_backward,
  cross_entropy,
  token_losses,
  adamw,
  measure,
};

/// The dtype of what an op returns.
enum class OutputType { requested, of_inputs, f64 };
/// The type in which an op accumulates its longest sum; in_dtype is computed_in(dtype).
enum class Accumulation { none, in_dtype, in_double };

struct OpRow {
  Op op;
  std::string_view name;
  std::string_view shapes;  ///< of the inputs, then of the outputs; N rows
  std::string_view formula;
  OutputType output;
  Accumulation accumulation;
};

/// One row per op, in the order of Op. `periscope list` prints it; the tests go through it, so that an op that nobody
/// tests fails.
std::span<const OpRow> op_table();
std::string_view name_of(Op op);
std::string_view name_of(OutputType output);
std::string_view name_of(Accumulation accumulation);

}  // namespace periscope
