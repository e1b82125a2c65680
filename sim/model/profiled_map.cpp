#include "sim/model/profiled_map.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace periscope {
namespace {

/// A profile's sides as rows on the device; empty where they are 1.
struct Sides {
  Tensor rows;     // [1, m]
  Tensor columns;  // [1, n]
};

/// x_tk·side_k: x [N, n], side [1, n] or empty.
Tensor scaled_channels(const Backend& ops, Tensor x, const Tensor& side) {
  if (side.empty()) return x;
  const std::vector<int> first(static_cast<std::size_t>(x.rows()), 0);
  return ops.multiply(std::move(x), ops.gather(side, first));
}

class ProfiledReading final : public LinearReading {
 public:
  ProfiledReading(const Backend& ops, std::unique_ptr<LinearReading> inner, Sides sides, Tensor x)
      : ops_(ops), inner_(std::move(inner)), sides_(std::move(sides)), x_(std::move(x)) {}

  [[nodiscard]] const Tensor& input() const override { return x_; }
  [[nodiscard]] Tensor output() override { return scaled_channels(ops_, inner_->output(), sides_.rows); }
  [[nodiscard]] Tensor pull(const Tensor& dy) override {
    return scaled_channels(ops_, inner_->pull(scaled_channels(ops_, dy, sides_.rows)), sides_.columns);
  }
  // The gradients of W itself: the profile is no part of them.
  [[nodiscard]] Tensor gradient(const Tensor& dy) const override { return ops_.linear_backward_weight(dy, x_); }
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override { return ops_.linear_weight_square(dy, x_); }
  void release() override { inner_->release(); }

 private:
  const Backend& ops_;
  std::unique_ptr<LinearReading> inner_;
  Sides sides_;
  Tensor x_;
};

class ProfiledMap final : public LinearMap {
 public:
  ProfiledMap(const Backend& ops, std::shared_ptr<const LinearMap> z, Sides sides)
      : ops_(ops), z_(std::move(z)), sides_(std::move(sides)) {}

  [[nodiscard]] std::unique_ptr<LinearReading> read(const Backend& ops, const Tensor& x, Keep keep) const override {
    return std::make_unique<ProfiledReading>(ops, z_->read(ops, scaled_channels(ops, x, sides_.columns), keep), sides_,
                                             x);
  }
  [[nodiscard]] Tensor dense() const override {
    Tensor w = scaled_channels(ops_, z_->dense(), sides_.columns);
    if (sides_.rows.empty()) return w;
    const std::vector<double> rows = ops_.to_host(sides_.rows);
    const auto width = static_cast<std::size_t>(w.cols());
    const auto fill = [&]<class T>(Tensor::Index first, Tensor::Index count, std::span<T> values) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        const auto size = static_cast<T>(rows[static_cast<std::size_t>(first) + i]);
        std::ranges::fill(values.subspan(i * width, width), size);
      }
    };
    const Tensor sizes = ops_.from_rows(w.rows(), w.cols(), w.dtype(), fill);
    return ops_.multiply(std::move(w), sizes);
  }

 private:
  const Backend& ops_;
  std::shared_ptr<const LinearMap> z_;
  Sides sides_;
};

}  // namespace

std::shared_ptr<const LinearMap> profiled_map(const Backend& ops, DType dtype, std::shared_ptr<const LinearMap> z,
                                              VarianceProfile profile) {
  if (profile.rows.empty() && profile.columns.empty()) return z;
  const auto on_device = [&](const std::vector<double>& side) {
    return side.empty() ? Tensor() : ops.from_host(1, static_cast<Tensor::Index>(side.size()), dtype, side);
  };
  return std::make_shared<ProfiledMap>(ops, std::move(z), Sides{on_device(profile.rows), on_device(profile.columns)});
}

}  // namespace periscope
