#include "sim/core/checks.h"
#include "sim/core/storage.h"

namespace periscope {

Tensor Backend::linear(const Tensor& x, const Tensor& w) const {
  const Checks check(*this, op::Linear::facts, {{"x", x}, {"w", w}});
  check.shape("w", w, Checks::any, x.cols());
  return run_into<op::Linear>(do_allocate(x.rows(), w.rows(), x.dtype()), x, w);
}

Tensor Backend::linear_backward_input(const Tensor& dy, const Tensor& w) const {
  const Checks check(*this, op::LinearBackwardInput::facts, {{"dy", dy}, {"w", w}});
  check.shape("w", w, dy.cols(), Checks::any);
  return run_into<op::LinearBackwardInput>(do_allocate(dy.rows(), w.cols(), dy.dtype()), dy, w);
}

Tensor Backend::linear_backward_weight(const Tensor& dy, const Tensor& x) const {
  const Checks check(*this, op::LinearBackwardWeight::facts, {{"dy", dy}, {"x", x}});
  check.shape("x", x, dy.rows(), Checks::any);
  return run_into<op::LinearBackwardWeight>(do_allocate(dy.cols(), x.cols(), x.dtype()), dy, x);
}

Tensor Backend::linear_weight_square(const Tensor& dy, const Tensor& x) const {
  const Checks check(*this, op::LinearWeightSquare::facts, {{"dy", dy}, {"x", x}});
  check.shape("x", x, dy.rows(), Checks::any);
  return run_into<op::LinearWeightSquare>(do_allocate(1, 1, DType::f64), dy, x);
}

Tensor Backend::linear_drawn(const Tensor& x, const DrawnMatrix& w) const {
  const Checks check(*this, op::LinearDrawn::facts, {{"x", x}});
  check.require(w.rows > 0 && w.cols == x.cols(), "w must be [*, {}], found [{}, {}] for x {}", x.cols(), w.rows,
                w.cols, shape_of(x));
  return run_into<op::LinearDrawn>(do_allocate(x.rows(), w.rows, x.dtype()), x, w);
}

Tensor Backend::linear_drawn_backward_input(const Tensor& dy, const DrawnMatrix& w) const {
  const Checks check(*this, op::LinearDrawnBackwardInput::facts, {{"dy", dy}});
  check.require(w.cols > 0 && w.rows == dy.cols(), "w must be [{}, *], found [{}, {}] for dy {}", dy.cols(), w.rows,
                w.cols, shape_of(dy));
  return run_into<op::LinearDrawnBackwardInput>(do_allocate(dy.rows(), w.cols, dy.dtype()), dy, w);
}

Tensor Backend::axpby(double a, Tensor x, double b, Tensor y) const {
  const Checks check(*this, op::Axpby::facts, {{"x", x}, {"y", y}});
  check.shape("y", y, x.rows(), x.cols());
  return run_into<op::Axpby>(TensorMemory::is_sole_owner(x) ? x : reused_or_like(y), a, x, b, y);
}

Tensor Backend::scale(double a, Tensor x) const {
  const Checks check(*this, op::Scale::facts, {{"x", x}});
  return run_into<op::Scale>(reused_or_like(x), a, x);
}

Tensor Backend::multiply(Tensor x, Tensor y) const {
  const Checks check(*this, op::Multiply::facts, {{"x", x}, {"y", y}});
  check.shape("y", y, x.rows(), x.cols());
  return run_into<op::Multiply>(TensorMemory::is_sole_owner(x) ? x : reused_or_like(y), x, y);
}

Tensor Backend::add_row(Tensor x, const Tensor& row) const {
  const Checks check(*this, op::AddRow::facts, {{"x", x}, {"row", row}});
  check.shape("row", row, 1, x.cols());
  return run_into<op::AddRow>(reused_or_like(x), x, row);
}

Tensor Backend::column_sums(const Tensor& x) const {
  const Checks check(*this, op::ColumnSums::facts, {{"x", x}});
  return run_into<op::ColumnSums>(do_allocate(1, x.cols(), x.dtype()), x);
}

Tensor Backend::gather(const Tensor& table, std::span<const int> ids) const {
  const Checks check(*this, op::Gather::facts, {{"table", table}});
  check.range("ids", ids, table.rows());
  return run_into<op::Gather>(do_allocate(static_cast<Index>(ids.size()), table.cols(), table.dtype()), table, ids);
}

Tensor Backend::replace_rows(Tensor x, Index first, const Tensor& rows) const {
  const Checks check(*this, op::ReplaceRows::facts, {{"x", x}, {"rows", rows}});
  check.shape("rows", rows, Checks::any, x.cols());
  check.require(first >= 0 && first + rows.rows() <= x.rows(), "x {} has no rows {} to {}", shape_of(x), first,
                first + rows.rows() - 1);
  return run_into<op::ReplaceRows>(reused_or_like(x), x, first, rows);
}

Tensor Backend::scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const {
  const Checks check(*this, op::ScatterAdd::facts, {{"dy", dy}});
  check.shape("dy", dy, static_cast<Index>(ids.size()), Checks::any, ": one row per id");
  check.range("ids", ids, rows);
  return run_into<op::ScatterAdd>(do_allocate(rows, dy.cols(), dy.dtype()), dy, ids);
}

}  // namespace periscope
