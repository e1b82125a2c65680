#pragma once

#include "sim/core/composed.h"
#include "sim/core/storage.h"

namespace periscope {

/// The reference implementation of every op that ComposedBackend does not implement: plain loops in double. They are
/// deliberately simple, because all faster implementations are tested against them.
class ReferenceBackend final : public ComposedBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] Device device() const override { return Device::host; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::f64; }

  using ComposedBackend::run;
  void run(const op::Constant& o) const override;
  void run(const op::FromHost& o) const override;
  void run(const op::FromRows& o) const override;
  void run(const op::ToHost& o) const override;
  void run(const op::Normal& o) const override;
  void run(const op::Linear& o) const override;
  void run(const op::LinearBackwardInput& o) const override;
  void run(const op::LinearBackwardWeight& o) const override;
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

}  // namespace periscope
