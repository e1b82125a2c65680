#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/studies/formats/format_pass.h"
#include "sim/base/enumerators.h"

/// Noise of single matrix products x Wᵀ, and of the gradients of their matrices.
namespace periscope::formats {

/// A measure of one product x Wᵀ. Its input x comes from the pass in f64, which excludes the noise of earlier layers.
enum class ProductMeasure {
  weight_sqnr,
  weight_sqnr_predicted,
  weight_underflow,
  input_sqnr,
  product_sqnr,
  product_sqnr_predicted,
  gradient_sqnr,
};
struct ProductFacts {
  std::string_view name, units, meaning;
};
inline constexpr std::array<ProductFacts, 7> product_facts{
    {{"weight_sqnr", "dB", "SQNR of the rounded matrix W"},
     {"weight_sqnr_predicted", "dB", "SQNR of a rounded Gaussian matrix with the root mean square of W (T26)"},
     {"weight_underflow", "1", "share of nonzero entries of W that are rounded to 0"},
     {"input_sqnr", "dB", "SQNR of the product's rounded input x"},
     {"product_sqnr", "dB", "SQNR of x Wᵀ with both factors rounded; x is the input in f64"},
     {"product_sqnr_predicted", "dB",
      "predicted SQNR of x Wᵀ for a Gaussian W: the noise-to-signal ratios of W (weight_sqnr_predicted) and x "
      "(input_sqnr) are added"},
     {"gradient_sqnr", "dB", "SQNR of the gradient of W in a whole pass, including the noise of all other roundings"}}};
static_assert(!enumerators_supported || product_facts.size() == identifiers<ProductMeasure>.size());

/// Numbers by matrix and measure, for every layer; at layer 0 for matrices outside layers.
template <class T>
using ByProduct = std::map<std::pair<Weight, ProductMeasure>, std::vector<T>>;

/// Weights of a pass in f64 that compare each product, in the forward pass, with the same product in every format.
class ComparedWeights final : public WeightSource {
 public:
  /// `spec` has the standard deviations of the matrices, for T26. All arguments must outlive this object and its maps.
  ComparedWeights(const WeightSource& exact, const StackSpec& spec, const std::vector<FormatChoice>& choices)
      : exact_(exact), spec_(spec), choices_(choices), numbers_(choices.size()) {}
  [[nodiscard]] SublayerWeights fetch(int sublayer) const override;
  [[nodiscard]] Tensor rows(const Backend& ops, Weight table, std::span<const int> ids) const override {
    return exact_.rows(ops, table, ids);
  }
  /// Returns the measures of the products in a format.
  [[nodiscard]] const ByProduct<double>& in_format(std::size_t format) const { return numbers_[format]; }

 private:
  class Map;
  void compare(const Backend& ops, const LinearMap& map, int sublayer, Weight weight, const Tensor& x) const;

  const WeightSource& exact_;
  const StackSpec& spec_;
  const std::vector<FormatChoice>& choices_;
  mutable std::vector<ByProduct<double>> numbers_;
  mutable std::set<std::pair<int, Weight>> compared_;
};

/// Compares the gradients of matrices (without tables) with the gradients of a pass in f64.
class GradientNoise final : public GradientRecorder {
 public:
  /// `exact` has recorded the pass in f64. If it is null, this object records that pass and stores its gradients.
  /// Gradients are divided by `loss_scale` first. All arguments must outlive this object.
  GradientNoise(const Backend& ops, const ModelSpec& model, const GradientNoise* exact = nullptr,
                double loss_scale = 1.0)
      : ops_(ops), model_(model), exact_(exact), loss_scale_(loss_scale) {}
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override;
  /// Adds ProductMeasure::gradient_sqnr to `products`.
  void add_to(ByProduct<double>& products) const;
  /// Returns the SQNR in dB of the gradient of all matrices of each layer together; empty without gradients.
  [[nodiscard]] std::vector<double> of_layers() const;

 private:
  struct Power {
    double signal = 0.0, noise = 0.0;
  };
  const Backend& ops_;
  const ModelSpec& model_;
  const GradientNoise* exact_;
  double loss_scale_;
  std::map<ParameterId, std::vector<double>> stored_;
  std::map<ParameterId, Power> powers_;
};

/// Returns 10 log10(signal/noise).
double decibels(double signal, double noise);

}  // namespace periscope::formats
