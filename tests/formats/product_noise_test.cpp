#include "experiments/studies/formats/product_noise.h"

#include <cmath>

#include "experiments/engine/run/token_ids.h"
#include "sim/measure/running_moments.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"
#include "theory/formats/rounding_noise.h"

/// Noise of single products and of the gradients of their matrices.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;
using formats::Measure;
using formats::PassReading;
using formats::ProductMeasure;
using Values = std::vector<double>;

double of_product(const PassReading& pass, Weight weight, ProductMeasure measure, std::size_t layer) {
  return pass.products.at({weight, measure}).at(layer);
}

double sqnr(const Values& x, const Values& r) {
  double signal = 0.0, noise = 0.0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    signal += r[i] * r[i];
    noise += (x[i] - r[i]) * (x[i] - r[i]);
  }
  return 10.0 * std::log10(signal / noise);
}

/// Stores the inputs of all W_down in the forward pass, and the gradients of all W_down.
struct DownRecorder final : SignalRecorder, GradientRecorder {
  void on_signal(const Emission& at, const Tensor& x) override {
    if (at.signal == Signal::hidden && at.pass == Pass::forward) inputs[at.sublayer / 2] = x;
  }
  void on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) override {
    if (parameter.weight == Weight::down) gradients[parameter.layer()] = quick().to_host(gradient.whole());
  }
  std::map<int, Tensor> inputs;
  std::map<int, Values> gradients;
};

TEST_CASE("the noise of a product comes from its rounded factors alone; gradients include all other noise") {
  FormatsConfig config = small_config("peri", {"bf16"});
  config.loss_scale = 16.0;
  const PassReading pass = reading_of(config, 5)[0][1];
  const GeneratedWeights weights(quick(), config.base, DType::f64, 5);
  const std::vector<int> labels = stacks::label_ids(config.base, 5);
  const Tensor input = gaussian_input(quick(), config.base, DType::f64, 5);
  DownRecorder exact, rounded;
  const StackContext context{.ops = quick(), .model = config.base.model, .weights = weights};
  (void)backpropagate(context, input, labels, {.recorders = {&exact}, .gradients = {&exact}});
  const formats::FormatChoice choice = formats::format_choice_for(config, *find_tensor_format("bf16"), 5);
  const formats::FormatWeights in_format(weights, choice);
  formats::FormatSignals signals(quick(), config.base.model, choice);
  const StackContext format{.ops = quick(), .model = config.base.model, .weights = in_format};
  (void)backpropagate(format, signals.replaced({-1, Signal::input, Pass::recomputation}, input), labels,
                      {.gradients = {&rounded}, .replacers = {&signals}});
  const Rounding round(find_tensor_format("bf16")->floating);
  for (int layer = 0; layer < 2; ++layer) {
    const Tensor w = weights.fetch(2 * layer + 1).matrix(Weight::down).map->dense();
    Values x_rounded = quick().to_host(exact.inputs.at(layer));
    Values w_rounded = quick().to_host(w);
    for (Values* values : {&x_rounded, &w_rounded})
      for (double& v : *values) v = round(v);
    const auto tensor = [](const Tensor& like, const Values& values) {
      return quick().from_host(like.rows(), like.cols(), DType::f64, values);
    };
    const Tensor& x = exact.inputs.at(layer);
    const Values product = quick().to_host(quick().linear(tensor(x, x_rounded), tensor(w, w_rounded)));
    const auto found = [&](ProductMeasure measure) { return of_product(pass, Weight::down, measure, layer); };
    CHECK(found(ProductMeasure::weight_sqnr) == approx(sqnr(w_rounded, quick().to_host(w))).epsilon(1e-12));
    CHECK(found(ProductMeasure::input_sqnr) == approx(sqnr(x_rounded, quick().to_host(x))).epsilon(1e-12));
    // Sums in f32 have noise at -140 dB.
    const double expected = sqnr(product, quick().to_host(quick().linear(x, w)));
    CHECK(found(ProductMeasure::product_sqnr) == approx(expected).epsilon(1e-6));
    Values scaled = rounded.gradients.at(layer);
    for (double& g : scaled) g /= config.loss_scale;
    CHECK(found(ProductMeasure::gradient_sqnr) == approx(sqnr(scaled, exact.gradients.at(layer))).epsilon(1e-12));
  }
  // A layer's gradient is dominated by the matrices with the largest gradients.
  double lowest = HUGE_VAL, highest = -HUGE_VAL;
  for (const Weight w : {Weight::q, Weight::k, Weight::v, Weight::o, Weight::gate, Weight::up, Weight::down}) {
    lowest = std::min(lowest, of_product(pass, w, ProductMeasure::gradient_sqnr, 1));
    highest = std::max(highest, of_product(pass, w, ProductMeasure::gradient_sqnr, 1));
  }
  CHECK(pass.layer_gradients.size() == 2);
  CHECK((lowest < pass.layer_gradients[1] && pass.layer_gradients[1] < highest));
}

TEST_CASE("rounding only in the backward pass leaves the forward pass in f32 and rounds every factor of gradients") {
  FormatsConfig config = small_config("pre", {"fp8_e4m3"});
  const PassReading both = reading_of(config, 5)[0][1];
  config.backward_only = true;
  config.rest = "fp32";
  const PassReading backward = reading_of(config, 5)[0][1];
  for (int sublayer = -1; sublayer < 4; ++sublayer) {
    CHECK(number_of(backward, formats::stream_site, Measure::sqnr, sublayer) > 130.0);
    CHECK(number_of(both, formats::stream_site, Measure::sqnr, sublayer) < 60.0);
  }
  for (const double predicted : backward.predicted) CHECK(std::isnan(predicted));
  // E4M3 has noise at -31.5 dB. The unembedding's gradient is a product of two factors with only this noise.
  const double last = of_product(backward, Weight::unembedding, ProductMeasure::gradient_sqnr, 0);
  CHECK(last == approx(31.5 - 10.0 * std::log10(2.0)).epsilon(0.05));
  CHECK(last > of_product(both, Weight::unembedding, ProductMeasure::gradient_sqnr, 0) + 0.5);
}

TEST_CASE("products of random weights have the predicted noise in every format (T26)") {
  FormatsConfig config = small_config("pre", {"bf16", "fp16", "fp8_e4m3", "int8", "mxfp8_e4m3", "mxfp4", "nvfp4"});
  config.base.model.width = 128;
  config.base.model.head_dim = 64;
  config.base.model.mlp_width = 192;
  config.run.backward = false;
  for (const bool stochastic : {false, true}) {
    config.stochastic = stochastic;
    RunningMoments differences[2];
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      const formats::SeedReading reading = reading_of(config, seed);
      for (std::size_t f = 1; f <= config.format.size(); ++f) {
        for (const Weight w : layer_matrices) {
          if (w == Weight::attention_gate) continue;
          for (std::size_t layer = 0; layer < 2; ++layer) {
            const auto found = [&](ProductMeasure m) { return of_product(reading[0][f], w, m, layer); };
            INFO(config.format[f - 1], " ", name_of(w));
            // Largest: INT8, whose noise is proportional to the squared maximum of each of 128 rows, with a spread of
            // 0.26/√128 or 0.1 dB.
            CHECK(std::abs(found(ProductMeasure::weight_sqnr) - found(ProductMeasure::weight_sqnr_predicted)) < 0.5);
            // The noise of a product of 12 tokens with 128 features has a spread of about 3 %.
            const double gap = found(ProductMeasure::product_sqnr) - found(ProductMeasure::product_sqnr_predicted);
            CHECK(std::abs(gap) < 0.8);
            differences[0].add(gap);
          }
        }
      }
    }
    CHECK(std::abs(differences[0].mean()) < 0.06);
  }
}

TEST_CASE("predicted noise of the input (T27) counts every table, the embedding's factor and its norm") {
  FormatsConfig config = small_config("pre", {"int8", "bf16"});
  config.rest = "fp32";
  config.base.input.kind = InputKind::tokens;
  config.base.model.embedding.scale = 3.0;
  config.base.model.embedding.positions = 12;
  config.base.init.embedding_std = 1.0;
  config.base.init.position_std = 0.7;
  for (const bool norm : {false, true}) {
    config.base.model.embedding_norm = norm;
    for (std::size_t f = 1; f <= 2; ++f) {
      RunningMoments difference;
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const PassReading pass = reading_of(config, seed)[0][f];
        difference.add(number_of(pass, {Pass::forward, Signal::x_out}, Measure::sqnr, -1) - pass.predicted.front());
      }
      INFO(norm, " ", f, ": ", difference.mean(), " ± ", difference.standard_error());
      // Without a norm the noise is known up to second order; the norm's gradient is not quite isotropic.
      CHECK(std::abs(difference.mean()) < 4.0 * difference.standard_error() + (norm ? 0.4 : 0.05));
      CHECK(difference.standard_error() < 0.5);
    }
  }
}

}  // namespace
}  // namespace periscope::testing
