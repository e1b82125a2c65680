#include "sim/cpu/backend.h"

#include <algorithm>
#include <memory>

#include "sim/cpu/ops.h"
#include "sim/random/normal.h"

namespace periscope {

using cpu::with_type_of;

Tensor CpuBackend::do_allocate(Index rows, Index cols, DType dtype) const { return host_tensor(rows, cols, dtype); }

void CpuBackend::run(const op::Constant& o) const {
  with_type_of(o.y, [&]<class T>(T) { std::fill_n(elements<T>(o.y), o.y.size(), static_cast<T>(o.value)); });
}

void CpuBackend::run(const op::FromHost& o) const {
  with_type_of(o.y, [&]<class T>(T) {
    std::ranges::transform(o.values, elements<T>(o.y), [](double v) { return static_cast<T>(v); });
  });
}

void CpuBackend::run(const op::FromRows& o) const {
  constexpr Index piece = Index{1} << 17;  // elements per call of `fill`
  const Index cols = o.y.cols();
  const Index step = std::max<Index>(1, piece / std::max<Index>(1, cols));
  const auto from = [&](Index first, Index count) {
    const auto size = static_cast<std::size_t>(count * cols);
    if (o.y.dtype() == DType::f64) {
      o.fill.in_f64(first, count, {elements<double>(o.y) + first * cols, size});
    } else {
      o.fill.in_f32(first, count, {elements<float>(o.y) + first * cols, size});
    }
  };
  cpu::for_chunks(o.y.rows(), from, step);
}

void CpuBackend::run(const op::ToHost& o) const {
  for (const Tensor& x : o.tensors) {
    with_type_of(x, [&]<class T>(T) { o.values.emplace_back(elements<T>(x), elements<T>(x) + x.size()); });
  }
}

void CpuBackend::run(const op::Normal& o) const {
  constexpr Index piece = Index{1} << 14;  // elements per iteration
  with_type_of(o.y, [&]<class T>(T) {
    T* out = elements<T>(o.y);
#pragma omp parallel for schedule(static)
    for (Index first = 0; first < o.y.size(); first += piece) {
      const auto count = static_cast<std::size_t>(std::min(piece, o.y.size() - first));
      fill_normal<T>(o.key, static_cast<std::uint64_t>(first), o.stddev, {out + first, count});
    }
  });
}

// Compiled once per level (levels.h), under a different name each time.
std::unique_ptr<Backend> PERISCOPE_CPU_FACTORY();
std::unique_ptr<Backend> PERISCOPE_CPU_FACTORY() { return std::make_unique<CpuBackend>(); }

}  // namespace periscope
