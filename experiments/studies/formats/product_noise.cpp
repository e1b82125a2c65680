#include "experiments/studies/formats/product_noise.h"

#include <cmath>
#include <limits>

#include "theory/formats/rounding_noise.h"

namespace periscope::formats {
namespace {

using Values = std::vector<double>;

/// Sums over the entries of r and of its rounded value x.
struct Sums {
  double signal = 0.0, noise = 0.0, lost = 0.0, nonzero = 0.0;

  Sums(const Values& x, const Values& r) {
    for (std::size_t i = 0; i < r.size(); ++i) {
      signal += r[i] * r[i];
      noise += (x[i] - r[i]) * (x[i] - r[i]);
      nonzero += r[i] != 0.0 ? 1.0 : 0.0;
      lost += r[i] != 0.0 && x[i] == 0.0 ? 1.0 : 0.0;
    }
  }
};

double& entry(ByProduct<double>& numbers, const ModelSpec& model, Weight weight, int layer, ProductMeasure measure) {
  Values& layers = numbers[{weight, measure}];
  layers.resize(is_of_layer(weight) ? static_cast<std::size_t>(model.layers) : 1,
                std::numeric_limits<double>::quiet_NaN());
  return layers[static_cast<std::size_t>(is_of_layer(weight) ? layer : 0)];
}

}  // namespace

double decibels(double signal, double noise) { return 10.0 * std::log10(signal / noise); }

/// Compares a product before returning it.
class ComparedWeights::Map final : public LinearMap {
 public:
  Map(std::shared_ptr<const LinearMap> exact, const ComparedWeights& owner, int sublayer, Weight weight)
      : exact_(std::move(exact)), owner_(owner), sublayer_(sublayer), weight_(weight) {}
  [[nodiscard]] std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x, Save save) const override {
    if (owner_.compared_.emplace(sublayer_, weight_).second) owner_.compare(ops, *exact_, sublayer_, weight_, x);
    return exact_->product(ops, x, save);
  }
  [[nodiscard]] Tensor dense() const override { return exact_->dense(); }

 private:
  std::shared_ptr<const LinearMap> exact_;
  const ComparedWeights& owner_;
  int sublayer_;
  Weight weight_;
};

SublayerWeights ComparedWeights::fetch(int sublayer) const {
  SublayerWeights weights = exact_.fetch(sublayer);
  for (auto& [weight, linear] : weights.linear) {
    if (!is_table(weight)) linear.map = std::make_shared<Map>(linear.map, *this, sublayer, weight);
  }
  return weights;
}

void ComparedWeights::compare(const Backend& ops, const LinearMap& map, int sublayer, Weight weight,
                              const Tensor& x) const {
  const Tensor dense = map.dense();
  const auto exact = dense_map([&] { return dense; });
  const Values w = ops.to_host(dense);
  const Values input = ops.to_host(x);
  const Values output = ops.to_host(ops.linear(x, dense));
  const int layer = is_of_layer(weight) ? ModelSpec::layer_of(sublayer) : 0;
  for (std::size_t f = 0; f < choices_.size(); ++f) {
    const FormatChoice& choice = choices_[f];
    const RoundedMatrix rounded{exact, choice, sublayer, weight};
    const Tensor w_rounded = rounded.weights();
    const Tensor x_rounded = rounded.rounded(x, Part::inputs, Rounded::input);
    const Sums of_weights(ops.to_host(w_rounded), w);
    const Sums of_input(ops.to_host(x_rounded), input);
    const Sums of_output(ops.to_host(rounded.product(ops, x_rounded, w_rounded)), output);
    const Quantization& q = choice.of(Part::weights);  // with backward_only, products are in f32
    const double predicted = q.keeps_f32() ? 0.0 : theory::weight_noise(spec_, layer, weight, q);
    const auto put = [&](ProductMeasure measure, double value) {
      entry(numbers_[f], spec_.model, weight, layer, measure) = value;
    };
    put(ProductMeasure::weight_sqnr, decibels(of_weights.signal, of_weights.noise));
    const auto put_predicted = [&](ProductMeasure measure, double noise) {
      if (noise > 0.0) put(measure, decibels(1.0, noise));
    };
    put_predicted(ProductMeasure::weight_sqnr_predicted, predicted);
    put(ProductMeasure::weight_underflow, of_weights.lost / of_weights.nonzero);
    put(ProductMeasure::input_sqnr, decibels(of_input.signal, of_input.noise));
    put(ProductMeasure::product_sqnr, decibels(of_output.signal, of_output.noise));
    if (choice.sums) continue;  // T26 is about roundings of the factors
    put_predicted(ProductMeasure::product_sqnr_predicted, predicted + of_input.noise / of_input.signal);
  }
}

void GradientNoise::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  if (parameter.part != ParameterId::Part::matrix || is_table(parameter.weight)) return;
  Values values = ops_.to_host(gradient.whole());
  for (double& v : values) v /= loss_scale_;
  const Values& exact = exact_ == nullptr ? values : exact_->stored_.at(parameter);
  const Sums sums(values, exact);
  powers_[parameter] = {sums.signal, sums.noise};
  if (exact_ == nullptr) stored_[parameter] = std::move(values);
}

void GradientNoise::add_to(ByProduct<double>& products) const {
  for (const auto& [id, power] : powers_) {
    entry(products, model_, id.weight, id.layer(), ProductMeasure::gradient_sqnr) = decibels(power.signal, power.noise);
  }
}

std::vector<double> GradientNoise::of_layers() const {
  std::vector<Power> layers(powers_.empty() ? 0 : static_cast<std::size_t>(model_.layers));
  for (const auto& [id, power] : powers_) {
    if (!is_of_layer(id.weight)) continue;
    Power& layer = layers[static_cast<std::size_t>(id.layer())];
    layer.signal += power.signal;
    layer.noise += power.noise;
  }
  Values sqnr;
  for (const Power& layer : layers) sqnr.push_back(decibels(layer.signal, layer.noise));
  return sqnr;
}

}  // namespace periscope::formats
