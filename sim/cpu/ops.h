#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "sim/base/first_exception.h"
#include "sim/core/composed.h"
#include "sim/core/storage.h"

namespace periscope {

/// Implements the ops with Eigen and OpenMP.
class CpuBackend final : public ComposedBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] Device device() const override { return Device::host; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64 || dtype == DType::f32; }

  using ComposedBackend::run;
  void run(const op::Constant& o) const override;
  void run(const op::FromHost& o) const override;
  void run(const op::FromRows& o) const override;
  void run(const op::ToHost& o) const override;
  void run(const op::Normal& o) const override;
  void run(const op::Linear& o) const override;
  void run(const op::LinearBackwardInput& o) const override;
  void run(const op::LinearBackwardWeight& o) const override;
  void run(const op::LinearWeightSquare& o) const override;
  void run(const op::LinearDrawn& o) const override;
  void run(const op::LinearDrawnBackwardInput& o) const override;
  void run(const op::Axpby& o) const override;
  void run(const op::Scale& o) const override;
  void run(const op::Multiply& o) const override;
  void run(const op::AddRow& o) const override;
  void run(const op::ColumnSums& o) const override;
  void run(const op::Gather& o) const override;
  void run(const op::ReplaceRows& o) const override;
  void run(const op::ScatterAdd& o) const override;
  void run(const op::RowBasis& o) const override;
  void run(const op::Activate& o) const override;
  void run(const op::ActivateBackward& o) const override;
  void run(const op::Gated& o) const override;
  void run(const op::GatedBackward& o) const override;
  void run(const op::SoftCap& o) const override;
  void run(const op::SoftCapBackward& o) const override;
  void run(const op::Norm& o) const override;
  void run(const op::NormBackward& o) const override;
  void run(const op::Rope& o) const override;
  void run(const op::Attention& o) const override;
  void run(const op::AttentionBackward& o) const override;
  void run(const op::CrossEntropy& o) const override;
  void run(const op::TokenLosses& o) const override;
  void run(const op::Adamw& o) const override;
  void run(const op::Measure& o) const override;

 protected:
  [[nodiscard]] Tensor do_allocate(Index rows, Index cols, DType dtype) const override;
};

namespace cpu {

using Index = Tensor::Index;

template <class T>
using ConstRow = Eigen::Map<const Eigen::Array<T, 1, Eigen::Dynamic>>;
template <class T>
using Row = Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>>;

/// Ops on fewer elements run on one thread, since starting a team of threads costs more, especially on a busy machine.
/// Results do not depend on the number of threads.
inline constexpr Index min_parallel_size = 4096;

/// Calls body(first, count) for consecutive chunks of 0 … size−1, on all threads. The chunks depend only on the size.
template <class Body>
void for_chunks(Index size, const Body& body, Index chunk = 4096) {
  FirstException failure;
#pragma omp parallel for schedule(static) if (size > chunk)
  for (Index first = 0; first < size; first += chunk) {
    failure.run([&] { body(first, std::min(chunk, size - first)); });
  }
  failure.rethrow();
}

/// Calls body(T{}) for the element type T of x.
template <class Body>
void with_type_of(const Tensor& x, const Body& body) {
  if (x.dtype() == DType::f64) return body(double{});
  body(float{});
}

/// Returns elements first … first + count − 1 of x.
template <class T>
ConstRow<T> chunk_of(const Tensor& x, Index first, Index count) {
  return {elements<T>(x) + first, count};
}
template <class T>
Row<T> chunk_of(Tensor& x, Index first, Index count) {
  return {elements<T>(x) + first, count};
}

/// Calls body(T{}, first, count) for chunks of the elements of x, which have type T.
template <class Body>
void for_parts(const Tensor& x, const Body& body) {
  with_type_of(x,
               [&]<class T>(T) { for_chunks(x.size(), [&](Index first, Index count) { body(T{}, first, count); }); });
}

}  // namespace cpu
}  // namespace periscope
