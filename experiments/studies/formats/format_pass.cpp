#include "experiments/studies/formats/format_pass.h"

#include <utility>

#include "sim/emulated/quantize.h"
#include "sim/emulated/rounded_product.h"

namespace periscope::formats {
namespace {

StreamKey key_of(const FormatChoice& choice, int sublayer, Stream stream) {
  return {choice.seed, static_cast<std::uint32_t>(sublayer + 1), stream};
}

/// Rounding of partial sums; nullopt if they are in f32.
std::optional<Rounding> sums_of(const FormatChoice& choice) {
  if (!choice.sums) return std::nullopt;
  return Rounding(*choice.sums, choice.of(Part::inputs, true).overflow);
}

/// A product with a rounded matrix.
class FormatProduct final : public LinearProduct {
 public:
  FormatProduct(const Backend& ops, const RoundedMatrix& matrix, const Tensor& x)
      : ops_(ops),
        matrix_(matrix),
        sums_(sums_of(matrix.choice)),
        x_(matrix.rounded(x, Part::inputs, Rounded::input)) {}

  [[nodiscard]] const Tensor& input() const override { return x_; }
  [[nodiscard]] Tensor output() override { return matrix_.product(ops_, x_, w()); }
  [[nodiscard]] Tensor backward(const Tensor& dy) override {
    const Tensor read = rounded(dy);
    const Tensor& weights = w(true);
    return sums_ ? rounded_linear_backward_input(read, weights, *sums_) : ops_.linear_backward_input(read, weights);
  }
  [[nodiscard]] Tensor gradient(const Tensor& dy) const override {
    const Tensor read = rounded(dy);
    const Tensor x = matrix_.choice.backward_only ? matrix_.rounded(x_, Part::inputs, Rounded::input, true) : x_;
    return sums_ ? rounded_linear_backward_weight(read, x, *sums_) : ops_.linear_backward_weight(read, x);
  }
  [[nodiscard]] Tensor gradient_squares(const Tensor& dy) const override {
    return ops_.measure(gradient(dy), {.squares = true});
  }
  void release() override { w_ = w_backward_ = {}; }

 private:
  /// Returns the output's gradient, rounded for both products of the backward pass.
  [[nodiscard]] Tensor rounded(const Tensor& dy) const {
    return matrix_.rounded(dy, Part::inputs, Rounded::gradient, true);
  }
  const Tensor& w(bool backward = false) {
    Tensor& w = backward && matrix_.choice.backward_only ? w_backward_ : w_;
    if (w.empty()) w = matrix_.weights(backward);
    return w;
  }

  const Backend& ops_;
  RoundedMatrix matrix_;
  std::optional<Rounding> sums_;
  Tensor x_;
  Tensor w_;
  Tensor w_backward_;  ///< if the passes differ in their formats
};

class FormatMap final : public LinearMap {
 public:
  explicit FormatMap(RoundedMatrix matrix) : matrix_(std::move(matrix)) {}
  [[nodiscard]] std::unique_ptr<LinearProduct> product(const Backend& ops, const Tensor& x,
                                                       Save /*save*/) const override {
    return std::make_unique<FormatProduct>(ops, matrix_, x);
  }
  [[nodiscard]] Tensor dense() const override { return matrix_.weights(); }

 private:
  RoundedMatrix matrix_;
};

}  // namespace

Tensor RoundedMatrix::rounded(const Tensor& x, Part part, Rounded what, bool backward) const {
  return quantized(x, choice.of(part, backward), key_of(choice, sublayer, rounding_stream(weight, what)));
}

Tensor RoundedMatrix::product(const Backend& ops, const Tensor& x, const Tensor& w) const {
  const std::optional<Rounding> sums = choice.backward_only ? std::nullopt : sums_of(choice);
  return sums ? rounded_linear(x, w, *sums) : ops.linear(x, w);
}

std::optional<Part> part_of(const ModelSpec& model, const Emission& at) {
  const bool back = at.pass == Pass::backward;
  const bool in_stack = at.sublayer >= 0 && at.sublayer < model.sublayers();
  const SublayerRule rule = in_stack ? model.rule(at.sublayer) : SublayerRule{};
  switch (at.signal) {
    case Signal::x_in: return back ? std::optional(Part::stream) : std::nullopt;
    case Signal::embedding:
    case Signal::input:
    case Signal::sum:
    case Signal::x_out:
    case Signal::r_out: return Part::stream;
    case Signal::A_out: return rule.norm_a ? Part::norms : Part::stream;
    case Signal::B_out: return rule.norm_b ? Part::norms : Part::modules;
    case Signal::output: return model.final_norm ? Part::norms : Part::stream;
    case Signal::q_in:
    case Signal::k_in:
    case Signal::v_in:
    case Signal::gate_in:
    case Signal::up_in: return back ? std::optional(Part::modules) : std::nullopt;
    case Signal::scores: return std::nullopt;
    default: return Part::modules;
  }
}

Tensor FormatSignals::replaced(const Emission& at, const Tensor& x) {
  const bool back = at.pass == Pass::backward;
  const bool is_first_gradient = back && at.signal == Signal::logits;
  const Tensor y = is_first_gradient && choice_.loss_scale != 1.0 ? ops_.scale(choice_.loss_scale, x) : x;
  const std::optional<Part> part = part_of(model_, at);
  if (!part) return y;
  const StreamKey key =
      key_of(choice_, at.sublayer, rounding_stream(at.signal, back ? Rounded::gradient : Rounded::signal));
  return quantized(y, choice_.of(*part, back), key);
}

SublayerWeights FormatWeights::fetch(int sublayer) const {
  SublayerWeights weights = source_.fetch(sublayer);
  const auto round = [&](Tensor& x, Part part, Stream stream) {
    if (!x.empty()) x = quantized(x, choice_.of(part), key_of(choice_, sublayer, stream));
  };
  for (auto& [weight, linear] : weights.linear) {
    linear.map = std::make_shared<FormatMap>(RoundedMatrix{linear.map, choice_, sublayer, weight});
    round(linear.bias, Part::modules, rounding_stream(weight, Rounded::bias));
  }
  for (auto& [weight, norm] : weights.norms) {
    round(norm.gain, Part::norms, rounding_stream(weight, Rounded::weight));
    round(norm.bias, Part::norms, rounding_stream(weight, Rounded::bias));
  }
  return weights;
}

Tensor FormatWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  Quantization each = choice_.of(Part::weights);
  if (each.scale == ScaleOver::tensor) each.scale = ScaleOver::row;
  const Tensor drawn = source_.rows(ops, table, ids);
  const StreamKey key = key_of(choice_, -1, rounding_stream(table, Rounded::weight));
  // A token's row is rounded identically at every position.
  Tensor rounded = ops.constant(drawn.rows(), drawn.cols(), DType::f32, 0.0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::vector<int> at{static_cast<int>(i)};
    const auto first = static_cast<std::uint64_t>(ids[i]) * static_cast<std::uint64_t>(drawn.cols());
    rounded = ops.replace_rows(std::move(rounded), static_cast<Tensor::Index>(i),
                               quantized(ops.gather(drawn, at), each, key, first));
  }
  return rounded;
}

}  // namespace periscope::formats
