#include "sim/core/checks.h"
#include "sim/core/storage.h"

namespace periscope {

Tensor Backend::linear(const Tensor& x, const Tensor& w) const {
  const Checks check(*this, op::Linear::facts, {{"x", x}, {"w", w}});
  check.shape("w", w, Checks::any, x.cols());
  Tensor y = do_allocate(x.rows(), w.rows(), x.dtype());
  run(op::Linear{x, w, y});
  return y;
}

Tensor Backend::linear_backward_input(const Tensor& dy, const Tensor& w) const {
  const Checks check(*this, op::LinearBackwardInput::facts, {{"dy", dy}, {"w", w}});
  check.shape("w", w, dy.cols(), Checks::any);
  Tensor dx = do_allocate(dy.rows(), w.cols(), dy.dtype());
  run(op::LinearBackwardInput{dy, w, dx});
  return dx;
}

Tensor Backend::linear_backward_weight(const Tensor& dy, const Tensor& x) const {
  const Checks check(*this, op::LinearBackwardWeight::facts, {{"dy", dy}, {"x", x}});
  check.shape("x", x, dy.rows(), Checks::any);
  Tensor dw = do_allocate(dy.cols(), x.cols(), x.dtype());
  run(op::LinearBackwardWeight{dy, x, dw});
  return dw;
}

Tensor Backend::linear_weight_square(const Tensor& dy, const Tensor& x) const {
  const Checks check(*this, op::LinearWeightSquare::facts, {{"dy", dy}, {"x", x}});
  check.shape("x", x, dy.rows(), Checks::any);
  Tensor square = do_allocate(1, 1, DType::f64);
  run(op::LinearWeightSquare{dy, x, square});
  return square;
}

Tensor Backend::linear_drawn(const Tensor& x, const DrawnMatrix& w) const {
  const Checks check(*this, op::LinearDrawn::facts, {{"x", x}});
  check.require(w.rows > 0 && w.cols == x.cols(), "w must be [*, {}], found [{}, {}] for x {}", x.cols(), w.rows,
                w.cols, shape_of(x));
  Tensor y = do_allocate(x.rows(), w.rows, x.dtype());
  run(op::LinearDrawn{x, w, y});
  return y;
}

Tensor Backend::linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w) const {
  const Checks check(*this, op::LinearDrawnBackwardInput::facts, {{"dy", dy}});
  check.require(w.cols > 0 && w.rows == dy.cols(), "w must be [{}, *], found [{}, {}] for dy {}", dy.cols(), w.rows,
                w.cols, shape_of(dy));
  Tensor dx = do_allocate(dy.rows(), w.cols, dy.dtype());
  run(op::LinearDrawnBackwardInput{dy, w, dx});
  return dx;
}

Tensor Backend::axpby(double a, Tensor x, double b, Tensor y) const {
  const Checks check(*this, op::Axpby::facts, {{"x", x}, {"y", y}});
  check.shape("y", y, x.rows(), x.cols());
  Tensor z = TensorMemory::is_sole_owner(x) ? x : reused_or_like(y);
  run(op::Axpby{a, x, b, y, z});
  return z;
}

Tensor Backend::scale(double a, Tensor x) const {
  const Checks check(*this, op::Scale::facts, {{"x", x}});
  Tensor y = reused_or_like(x);
  run(op::Scale{a, x, y});
  return y;
}

Tensor Backend::multiply(Tensor x, Tensor y) const {
  const Checks check(*this, op::Multiply::facts, {{"x", x}, {"y", y}});
  check.shape("y", y, x.rows(), x.cols());
  Tensor z = TensorMemory::is_sole_owner(x) ? x : reused_or_like(y);
  run(op::Multiply{x, y, z});
  return z;
}

Tensor Backend::add_row(Tensor x, const Tensor& row) const {
  const Checks check(*this, op::AddRow::facts, {{"x", x}, {"row", row}});
  check.shape("row", row, 1, x.cols());
  Tensor y = reused_or_like(x);
  run(op::AddRow{x, row, y});
  return y;
}

Tensor Backend::column_sums(const Tensor& x) const {
  const Checks check(*this, op::ColumnSums::facts, {{"x", x}});
  Tensor sums = do_allocate(1, x.cols(), x.dtype());
  run(op::ColumnSums{x, sums});
  return sums;
}

Tensor Backend::gather(const Tensor& table, std::span<const int> ids) const {
  const Checks check(*this, op::Gather::facts, {{"table", table}});
  check.range("ids", ids, table.rows());
  Tensor y = do_allocate(static_cast<Index>(ids.size()), table.cols(), table.dtype());
  run(op::Gather{table, ids, y});
  return y;
}

Tensor Backend::replace_rows(Tensor x, Index first, const Tensor& rows) const {
  const Checks check(*this, op::ReplaceRows::facts, {{"x", x}, {"rows", rows}});
  check.shape("rows", rows, Checks::any, x.cols());
  check.require(first >= 0 && first + rows.rows() <= x.rows(), "x {} has no rows {} to {}", shape_of(x), first,
                first + rows.rows() - 1);
  Tensor y = reused_or_like(x);
  run(op::ReplaceRows{x, first, rows, y});
  return y;
}

Tensor Backend::scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const {
  const Checks check(*this, op::ScatterAdd::facts, {{"dy", dy}});
  check.shape("dy", dy, static_cast<Index>(ids.size()), Checks::any, ": one row per id");
  check.range("ids", ids, rows);
  Tensor sums = do_allocate(rows, dy.cols(), dy.dtype());
  run(op::ScatterAdd{dy, ids, sums});
  return sums;
}

}  // namespace periscope
