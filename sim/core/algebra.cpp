#include "sim/core/checks.h"
#include "sim/core/storage.h"

namespace periscope {

Tensor Backend::linear(const Tensor& x, const Tensor& w) const {
  const Checks check(*this, Op::linear, {{"x", x}, {"w", w}});
  check.shape("w", w, Checks::any, x.cols());
  Tensor y = do_allocate(x.rows(), w.rows(), x.dtype());
  do_linear(x, w, y);
  return y;
}

Tensor Backend::linear_backward_input(const Tensor& dy, const Tensor& w) const {
  const Checks check(*this, Op::linear_backward_input, {{"dy", dy}, {"w", w}});
  check.shape("w", w, dy.cols(), Checks::any);
  Tensor dx = do_allocate(dy.rows(), w.cols(), dy.dtype());
  do_linear_backward_input(dy, w, dx);
  return dx;
}

Tensor Backend::linear_backward_weight(const Tensor& dy, const Tensor& x) const {
  const Checks check(*this, Op::linear_backward_weight, {{"dy", dy}, {"x", x}});
  check.shape("x", x, dy.rows(), Checks::any);
  Tensor dw = do_allocate(dy.cols(), x.cols(), x.dtype());
  do_linear_backward_weight(dy, x, dw);
  return dw;
}

Tensor Backend::axpby(double a, Tensor x, double b, Tensor y) const {
  const Checks check(*this, Op::axpby, {{"x", x}, {"y", y}});
  check.shape("y", y, x.rows(), x.cols());
  Tensor z = TensorMemory::is_sole_owner(x) ? x : reused_or_like(y);
  do_axpby(a, x, b, y, z);
  return z;
}

Tensor Backend::scale(double a, Tensor x) const {
  const Checks check(*this, Op::scale, {{"x", x}});
  Tensor y = reused_or_like(x);
  do_scale(a, x, y);
  return y;
}

Tensor Backend::multiply(Tensor x, Tensor y) const {
  const Checks check(*this, Op::multiply, {{"x", x}, {"y", y}});
  check.shape("y", y, x.rows(), x.cols());
  Tensor z = TensorMemory::is_sole_owner(x) ? x : reused_or_like(y);
  do_multiply(x, y, z);
  return z;
}

Tensor Backend::add_row(Tensor x, const Tensor& row) const {
  const Checks check(*this, Op::add_row, {{"x", x}, {"row", row}});
  check.shape("row", row, 1, x.cols());
  Tensor y = reused_or_like(x);
  do_add_row(x, row, y);
  return y;
}

Tensor Backend::column_sums(const Tensor& x) const {
  const Checks check(*this, Op::column_sums, {{"x", x}});
  Tensor sums = do_allocate(1, x.cols(), x.dtype());
  do_column_sums(x, sums);
  return sums;
}

Tensor Backend::gather(const Tensor& table, std::span<const int> ids) const {
  const Checks check(*this, Op::gather, {{"table", table}});
  check.range("ids", ids, table.rows());
  Tensor y = do_allocate(static_cast<Index>(ids.size()), table.cols(), table.dtype());
  do_gather(table, ids, y);
  return y;
}

Tensor Backend::scatter_add(const Tensor& dy, std::span<const int> ids, Index rows) const {
  const Checks check(*this, Op::scatter_add, {{"dy", dy}});
  check.shape("dy", dy, static_cast<Index>(ids.size()), Checks::any, ": one row per id");
  check.range("ids", ids, rows);
  Tensor sums = do_allocate(rows, dy.cols(), dy.dtype());
  do_scatter_add(dy, ids, sums);
  return sums;
}

}  // namespace periscope
