#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "sim/numerics/number_format.h"

namespace periscope {

enum class DType { f64, f32 };

[[nodiscard]] constexpr std::size_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : 4; }
[[nodiscard]] constexpr const NumberFormat& format_of(DType dtype) { return dtype == DType::f64 ? fp64 : fp32; }
[[nodiscard]] constexpr std::string_view name_of(DType dtype) { return dtype == DType::f64 ? "f64" : "f32"; }

template <class T>
inline constexpr DType dtype_of = sizeof(T) == 8 ? DType::f64 : DType::f32;

/// A row-major matrix [rows, cols] whose dtype is known at run time. Rows are tokens (of all sequences,
/// one after the other) or output features; a vector is [1, n]. Copies share the buffer: an op returns
/// a new tensor and never writes to one that it was given.
class Tensor {
 public:
  using Index = std::int64_t;

  Tensor() = default;
  Tensor(Index rows, Index cols, DType dtype, std::shared_ptr<void> buffer)
      : rows_(rows), cols_(cols), dtype_(dtype), buffer_(std::move(buffer)) {}

  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Index cols() const { return cols_; }
  [[nodiscard]] Index size() const { return rows_ * cols_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] bool empty() const { return buffer_ == nullptr; }
  /// True for copies of one tensor, which hold the same elements.
  [[nodiscard]] bool same_as(const Tensor& other) const { return buffer_ == other.buffer_; }

  /// The elements, for the backend that owns the memory. Throws std::logic_error for the wrong type.
  template <class T>
  [[nodiscard]] const T* data() const {
    return static_cast<const T*>(checked(dtype_of<T>));
  }
  template <class T>
  [[nodiscard]] T* data() {
    return static_cast<T*>(checked(dtype_of<T>));
  }

 private:
  [[nodiscard]] void* checked(DType wanted) const {
    if (wanted != dtype_) throw std::logic_error("tensor read with the wrong dtype");
    return buffer_.get();
  }

  Index rows_ = 0;
  Index cols_ = 0;
  DType dtype_ = DType::f64;
  std::shared_ptr<void> buffer_;
};

}  // namespace periscope
