#include "sim/core/backend.h"

#include "sim/core/checks.h"
#include "sim/core/storage.h"

namespace periscope {

Tensor Backend::allocate_checked(const OpFacts& op, Index rows, Index cols, DType dtype) const {
  const Checks check(*this, op, {});
  if (!supports(dtype)) {
    check.reject(fmt::format("the backend {} does not support {}", name(), name_of(dtype)));
  }
  check.require(rows >= 0 && cols >= 0, "invalid shape {}", Shape{rows, cols});
  return do_allocate(rows, cols, dtype);
}

Tensor Backend::reused_or_like(const Tensor& x) const { return TensorMemory::is_sole_owner(x) ? x : like(x); }

Tensor Backend::constant(Index rows, Index cols, DType dtype, double value) const {
  return run_into<op::Constant>(allocate_checked(op::Constant::facts, rows, cols, dtype), value);
}

Tensor Backend::from_host(Index rows, Index cols, DType dtype, std::span<const double> values) const {
  Tensor y = allocate_checked(op::FromHost::facts, rows, cols, dtype);
  Checks(*this, op::FromHost::facts, {})
      .require(static_cast<Index>(values.size()) == y.size(), "shape {} requires {} values, found {}",
               Shape{rows, cols}, y.size(), values.size());
  perform(op::FromHost{values, y});
  return y;
}

Tensor Backend::from_rows(Index rows, Index cols, DType dtype, const FillRows& fill) const {
  return run_into<op::FromRows>(allocate_checked(op::FromRows::facts, rows, cols, dtype), fill);
}

std::vector<double> Backend::to_host(const Tensor& x) const { return std::move(to_host({&x, 1}).front()); }

std::vector<std::vector<double>> Backend::to_host(std::span<const Tensor> tensors) const {
  for (const Tensor& x : tensors) const Checks check(*this, op::ToHost::facts, {{"x", x}});
  std::vector<std::vector<double>> values;
  perform(op::ToHost{tensors, values});
  return values;
}

Tensor Backend::normal(Index rows, Index cols, DType dtype, StreamKey key, double stddev) const {
  return run_into<op::Normal>(allocate_checked(op::Normal::facts, rows, cols, dtype), key, stddev);
}

Tensor Backend::cast(const Tensor& x, DType dtype) const {
  const Checks check(*this, op::Cast::facts, {{"x", x}});
  return run_into<op::Cast>(allocate_checked(op::Cast::facts, x.rows(), x.cols(), dtype), x);
}

}  // namespace periscope
