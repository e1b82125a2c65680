#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "sim/numerics/number_format.h"

namespace periscope {

/// The storage type of a tensor's elements. Backend::supports tells which ones a backend can compute with.
enum class DType { f64, f32, bf16, f16 };

[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  if (dtype == DType::f64) return 8;
  return dtype == DType::f32 ? 4 : 2;
}
[[nodiscard]] constexpr const NumberFormat& format_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return fp64;
    case DType::f32: return fp32;
    case DType::bf16: return number_formats[1];
    case DType::f16: return number_formats[2];
  }
  return fp64;
}
[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
  }
  return {};
}
/// The dtype in which an op computes, including sums: f32 for narrower dtypes, whose results are rounded when stored.
[[nodiscard]] constexpr DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// The DType of element type T. A class for narrow elements defines it as its member `dtype`.
template <class T>
inline constexpr DType dtype_of = T::dtype;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;

/// The memory that stores a tensor. The CPU and reference backends both use host memory.
enum class Device { host, cuda };

[[nodiscard]] constexpr std::string_view name_of(Device device) { return device == Device::host ? "host" : "cuda"; }

/// A row-major matrix [rows, cols] with run-time dtype and device. Rows are tokens (sequence after sequence) or output
/// features; a vector is [1, n]. Copies share the buffer, which is never written to while shared. Only backends access
/// the elements (sim/core/storage.h).
class Tensor {
 public:
  using Index = std::int64_t;

  Tensor() = default;
  Tensor(Index rows, Index cols, DType dtype, Device device, std::shared_ptr<void> buffer)
      : rows_(rows), cols_(cols), dtype_(dtype), device_(device), buffer_(std::move(buffer)) {}

  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Index cols() const { return cols_; }
  [[nodiscard]] Index size() const { return rows_ * cols_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] bool empty() const { return buffer_ == nullptr; }
  /// Returns true if both tensors share one buffer.
  [[nodiscard]] bool same_as(const Tensor& other) const { return buffer_ == other.buffer_; }

 private:
  friend struct TensorMemory;

  Index rows_ = 0;
  Index cols_ = 0;
  DType dtype_ = DType::f64;
  Device device_ = Device::host;
  std::shared_ptr<void> buffer_;
};

}  // namespace periscope
