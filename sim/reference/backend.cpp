#include "sim/reference/backend.h"

#include <algorithm>
#include <memory>

#include "sim/random/normal.h"
#include "sim/reference/ops.h"

namespace periscope {

Tensor ReferenceBackend::do_allocate(Index rows, Index cols, DType dtype) const {
  return host_tensor(rows, cols, dtype);
}

void ReferenceBackend::run(const op::Constant& o) const { std::fill_n(elements<double>(o.y), o.y.size(), o.value); }

void ReferenceBackend::run(const op::FromHost& o) const { std::ranges::copy(o.values, elements<double>(o.y)); }

void ReferenceBackend::run(const op::FromRows& o) const {
  o.fill.in_f64(0, o.y.rows(), {elements<double>(o.y), static_cast<std::size_t>(o.y.size())});
}

void ReferenceBackend::run(const op::ToHost& o) const {
  for (const Tensor& x : o.tensors) o.values.emplace_back(elements<double>(x), elements<double>(x) + x.size());
}

void ReferenceBackend::run(const op::Normal& o) const {
  fill_normal<double>(o.key, 0, o.stddev, {elements<double>(o.y), static_cast<std::size_t>(o.y.size())});
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace periscope
