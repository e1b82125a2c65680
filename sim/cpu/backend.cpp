#include "sim/cpu/backend.h"

#include <algorithm>
#include <memory>

#include "sim/cpu/ops.h"
#include "sim/random/normal.h"

namespace periscope {

using cpu::with_type_of;

Tensor CpuBackend::do_allocate(Index rows, Index cols, DType dtype) const { return host_tensor(rows, cols, dtype); }

void CpuBackend::do_constant(double value, Tensor& y) const {
  with_type_of(y, [&]<class T>(T) { std::fill_n(elements<T>(y), y.size(), static_cast<T>(value)); });
}

void CpuBackend::do_from_host(std::span<const double> values, Tensor& y) const {
  with_type_of(y, [&]<class T>(T) {
    std::ranges::transform(values, elements<T>(y), [](double v) { return static_cast<T>(v); });
  });
}

void CpuBackend::do_from_rows(const FillRows& fill, Tensor& y) const {
  constexpr Index piece = Index{1} << 17;  // elements
  const Index cols = y.cols();
  const Index step = std::max<Index>(1, piece / std::max<Index>(1, cols));
  const auto from = [&](Index first, Index count) {
    const auto size = static_cast<std::size_t>(count * cols);
    if (y.dtype() == DType::f64) {
      fill.in_f64(first, count, {elements<double>(y) + first * cols, size});
    } else {
      fill.in_f32(first, count, {elements<float>(y) + first * cols, size});
    }
  };
  cpu::for_chunks(y.rows(), from, step);
}

std::vector<std::vector<double>> CpuBackend::do_to_host(std::span<const Tensor> tensors) const {
  std::vector<std::vector<double>> values;
  for (const Tensor& x : tensors) {
    with_type_of(x, [&]<class T>(T) { values.emplace_back(elements<T>(x), elements<T>(x) + x.size()); });
  }
  return values;
}

void CpuBackend::do_normal(StreamKey key, double stddev, Tensor& y) const {
  constexpr Index piece = Index{1} << 14;  // numbers
  with_type_of(y, [&]<class T>(T) {
    T* out = elements<T>(y);
#pragma omp parallel for schedule(static)
    for (Index first = 0; first < y.size(); first += piece) {
      const auto count = static_cast<std::size_t>(std::min(piece, y.size() - first));
      fill_normal<T>(key, static_cast<std::uint64_t>(first), stddev, {out + first, count});
    }
  });
}

// Compiled once for every level (levels.h), each time under another name.
std::unique_ptr<Backend> PERISCOPE_CPU_FACTORY();
std::unique_ptr<Backend> PERISCOPE_CPU_FACTORY() { return std::make_unique<CpuBackend>(); }

}  // namespace periscope
