#include <algorithm>

#include "sim/cuda/elementwise.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

template <class T>
struct Fill {
  Out<T> y;
  T value;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = value; }
};

/// Rounds values to T and copies them to device memory at `to`.
template <class T>
void upload_rounded(const Execution& execution, std::span<const double> values, T* to) {
  std::vector<T> elements(values.size());
  std::ranges::transform(values, elements.begin(), from_double<T>);
  execution.upload(elements.data(), to, elements.size() * sizeof(T));
}

}  // namespace

std::string_view CudaBackend::name() const {
  const bool on_host = device() == Device::host;
  if (execution_.options().tf32) return on_host ? "cuda on host, TF32" : "cuda, TF32";
  return on_host ? "cuda on host" : "cuda";
}

Tensor CudaBackend::do_allocate(Index rows, Index cols, DType dtype) const {
  return {rows, cols, dtype, device(), execution_.take(static_cast<std::size_t>(rows * cols) * size_of(dtype))};
}

void CudaBackend::run(const op::Constant& o) const {
  with_type(o.y.dtype(), [&]<class T>(T) {
    for_each(execution_, o.y.size(), Fill<T>{data<T>(o.y), from_double<T>(o.value)});
  });
}

void CudaBackend::run(const op::FromHost& o) const {
  with_type(o.y.dtype(), [&]<class T>(T) { upload_rounded<T>(execution_, o.values, data<T>(o.y)); });
}

void CudaBackend::run(const op::FromRows& o) const {
  constexpr Index piece = Index{1} << 18;  // elements per call of `fill`
  const Index cols = o.y.cols();
  const Index step = std::max<Index>(1, piece / std::max<Index>(1, cols));
  const auto pieces = [&]<class Values>(const FillRows::Function<Values>& source, const auto& upload) {
    std::vector<Values> values(static_cast<std::size_t>(std::min(step, o.y.rows()) * cols));
    for (Index first = 0; first < o.y.rows(); first += step) {
      const Index count = std::min(step, o.y.rows() - first);
      const std::span<Values> part(values.data(), static_cast<std::size_t>(count * cols));
      source(first, count, part);
      upload(part, first * cols);
    }
  };
  if (o.y.dtype() == DType::f32) {
    pieces(o.fill.in_f32, [&](std::span<float> part, Index at) {
      execution_.upload(part.data(), data<float>(o.y) + at, part.size_bytes());
    });
    return;
  }
  with_type(o.y.dtype(), [&]<class T>(T) {
    pieces(o.fill.in_f64,
           [&](std::span<double> part, Index at) { upload_rounded<T>(execution_, part, data<T>(o.y) + at); });
  });
}

void CudaBackend::run(const op::ToHost& o) const {
  std::vector<DevicePart> parts;
  for (const Tensor& x : o.tensors) {
    parts.push_back({TensorMemory::address(x, x.dtype()), static_cast<std::size_t>(x.size()) * size_of(x.dtype())});
  }
  const std::vector<std::byte> bytes = execution_.download(parts);
  const std::byte* from = bytes.data();
  for (const Tensor& x : o.tensors) {
    std::vector<double>& out = o.values.emplace_back(static_cast<std::size_t>(x.size()));
    with_type(x.dtype(), [&]<class T>(T) {
      for (double& value : out) {
        T element;
        std::copy_n(from, sizeof element, reinterpret_cast<std::byte*>(&element));
        value = static_cast<double>(widen(element));
        from += sizeof element;
      }
    });
  }
}

void CudaBackend::run(const op::Cast& o) const {
  with_type(o.x.dtype(), [&]<class From>(From) {
    with_type(o.y.dtype(), [&]<class To>(To) {
      for_each(execution_, o.x.size(), Convert<From, To>{data<From>(o.x), data<To>(o.y)});
    });
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
