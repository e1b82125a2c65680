#include "sim/reference/backend.h"

#include <algorithm>
#include <memory>

#include "sim/random/normal.h"
#include "sim/reference/ops.h"

namespace periscope {

Tensor ReferenceBackend::do_allocate(Index rows, Index cols, DType dtype) const {
  return host_tensor(rows, cols, dtype);
}

void ReferenceBackend::do_constant(double value, Tensor& y) const { std::fill_n(elements<double>(y), y.size(), value); }

void ReferenceBackend::do_from_host(std::span<const double> values, Tensor& y) const {
  std::ranges::copy(values, elements<double>(y));
}

void ReferenceBackend::do_from_rows(const FillRows& fill, Tensor& y) const {
  fill.in_f64(0, y.rows(), {elements<double>(y), static_cast<std::size_t>(y.size())});
}

std::vector<std::vector<double>> ReferenceBackend::do_to_host(std::span<const Tensor> tensors) const {
  std::vector<std::vector<double>> values;
  for (const Tensor& x : tensors) values.emplace_back(elements<double>(x), elements<double>(x) + x.size());
  return values;
}

void ReferenceBackend::do_normal(StreamKey key, double stddev, Tensor& y) const {
  fill_normal<double>(key, 0, stddev, {elements<double>(y), static_cast<std::size_t>(y.size())});
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace periscope
