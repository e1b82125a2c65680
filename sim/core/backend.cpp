#include "sim/core/backend.h"

#include "sim/core/checks.h"
#include "sim/core/storage.h"

namespace periscope {

Tensor Backend::allocated(Op op, Index rows, Index cols, DType dtype) const {
  const Checks check(*this, op, {});
  if (!supports(dtype)) {
    check.refuse(fmt::format("the backend {} does not compute in {}", name(), name_of(dtype)));
  }
  check.require(rows >= 0 && cols >= 0, "a tensor cannot be {}", Shape{rows, cols});
  return do_allocate(rows, cols, dtype);
}

Tensor Backend::reused_or_like(const Tensor& x) const { return TensorMemory::is_sole_owner(x) ? x : like(x); }

Tensor Backend::constant(Index rows, Index cols, DType dtype, double value) const {
  Tensor y = allocated(Op::constant, rows, cols, dtype);
  do_constant(value, y);
  return y;
}

Tensor Backend::from_host(Index rows, Index cols, DType dtype, std::span<const double> values) const {
  Tensor y = allocated(Op::from_host, rows, cols, dtype);
  Checks(*this, Op::from_host, {})
      .require(static_cast<Index>(values.size()) == y.size(), "{} needs {} values, found {}", Shape{rows, cols},
               y.size(), values.size());
  do_from_host(values, y);
  return y;
}

Tensor Backend::from_rows(Index rows, Index cols, DType dtype, const FillRows& fill) const {
  Tensor y = allocated(Op::from_rows, rows, cols, dtype);
  do_from_rows(fill, y);
  return y;
}

std::vector<double> Backend::to_host(const Tensor& x) const { return std::move(to_host({&x, 1}).front()); }

std::vector<std::vector<double>> Backend::to_host(std::span<const Tensor> tensors) const {
  for (const Tensor& x : tensors) const Checks check(*this, Op::to_host, {{"x", x}});
  return do_to_host(tensors);
}

Tensor Backend::normal(Index rows, Index cols, DType dtype, StreamKey key, double stddev) const {
  Tensor y = allocated(Op::normal, rows, cols, dtype);
  do_normal(key, stddev, y);
  return y;
}

Tensor Backend::cast(const Tensor& x, DType dtype) const {
  const Checks check(*this, Op::cast, {{"x", x}});
  Tensor y = allocated(Op::cast, x.rows(), x.cols(), dtype);
  do_cast(x, y);
  return y;
}

}  // namespace periscope
