#include "experiments/studies/formats/format_pass.h"

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/stacks.h"
#include "sim/emulated/quantize.h"
#include "sim/emulated/rounded_product.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"
#include "tests/emulated/backend.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// Passes in a format, compared with plain f32, with the emulated ops, and with single rounded steps.
namespace periscope::testing {
namespace {

using formats::FormatChoice;
using formats::FormatsConfig;
using formats::FormatSignals;
using formats::FormatWeights;
using formats::Part;

/// Weights, signals and context of a pass in a format.
struct FormatPass {
  FormatPass(const FormatsConfig& config, const std::string& format)
      : spec(config.base),
        choice(formats::format_choice_for(config, *find_tensor_format(format), 3)),
        drawn(quick(), spec, DType::f64, 3),
        weights(drawn, choice),
        signals(quick(), spec.model, choice),
        context{.ops = quick(), .model = spec.model, .weights = weights} {}
  FormatPass(const FormatPass&) = delete;
  FormatPass& operator=(const FormatPass&) = delete;

  StackSpec spec;
  FormatChoice choice;
  GeneratedWeights drawn;
  FormatWeights weights;
  FormatSignals signals;
  StackContext context;
};

std::vector<double> host(const Tensor& x) { return quick().to_host(x); }

std::vector<int> labels_of(const StackSpec& spec) {
  std::vector<int> labels;
  for (int t = 0; t < spec.input.tokens; ++t) labels.push_back(t * 5 % spec.model.vocab);
  return labels;
}

TEST_CASE("a pass in fp32 equals the plain pass in f32 bit for bit, forward and backward") {
  FormatsConfig config = small_config("peri", {"fp32"});
  config.rest = "fp32";
  FormatPass pass(config, "fp32");
  const GeneratedWeights plain(quick(), pass.spec, DType::f32, 3);
  const StackContext context{.ops = quick(), .model = pass.spec.model, .weights = plain};
  const Tensor input = gaussian_input(quick(), pass.spec, DType::f32, 3);
  const Tensor expected = backpropagate(context, input, labels_of(pass.spec), {}).gradient;
  const Tensor found =
      backpropagate(pass.context, input, labels_of(pass.spec), {.replacers = {&pass.signals}}).gradient;
  CHECK(quick().to_host(found) == quick().to_host(expected));
}

/// Returns the number of differing entries, or of all entries if any differs by more than one step of the format.
std::size_t count_different(const std::vector<double>& a, const std::vector<double>& b, const NumberFormat& format) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double step = std::max(std::abs(a[i]), std::abs(b[i])) * format.spacing_at_1() + format.smallest_subnormal();
    if (std::abs(a[i] - b[i]) > step) return a.size();
    different += a[i] != b[i] ? 1 : 0;
  }
  return different;
}

TEST_CASE("an MLP sublayer in bf16 equals the sublayer of the emulated ops, which store every result") {
  for (const char* placement : {"post", "pre", "peri"}) {
    INFO(placement);
    FormatsConfig config = small_config(placement, {"bf16"});
    config.base.model.mlp = MlpKind::relu;
    FormatPass pass(config, "bf16");
    const NumberFormat bf16 = find_tensor_format("bf16")->floating;
    const Quantization stored = pass.choice.of(Part::stream);
    const Tensor x = quantized(gaussian_input(quick(), pass.spec, DType::f64, 3), stored, {});
    StepPass quick_pass(pass.context, {.replacers = {&pass.signals}}, 1, Pass::forward, Save::nothing);
    const Tensor found = step_forward(quick_pass, {x}).front();
    // The emulated ops read f64 tensors and rounded weights, and sum in f64 instead of f32.
    const auto emulated =
        make_emulated_backend(truth(), {.arithmetic = {Arithmetic::mixed, bf16, fp64}, .norm_stores_steps = false});
    const GeneratedWeights drawn(*emulated, pass.spec, DType::f64, 3);
    const StackContext context{.ops = *emulated, .model = pass.spec.model, .weights = drawn};
    StepPass emulated_pass(context, {}, 1, Pass::forward, Save::nothing);
    const Tensor start = truth().from_host(x.rows(), x.cols(), DType::f64, quick().to_host(x));
    const Tensor expected = step_forward(emulated_pass, {start}).front();
    // Sums of 64 terms in f32 have an error of about 2^-20, and bf16 rounds at 2^-9. So one sum in 2^11 rounds
    // differently, which changes each later number by one step of bf16.
    CHECK(count_different(quick().to_host(found), truth().to_host(expected), bf16) <= 12);  // of 384
  }
}

TEST_CASE("stochastic rounding: inputs of products, weights, signals and gradients have separate streams") {
  for (const bool sums : {false, true}) {
    FormatsConfig config = small_config("peri", {"bf16"});
    config.stochastic = true;
    config.loss_scale = 8.0;
    config.base.model.gamma = 1.1;
    config.accumulates_in_format = sums;
    FormatPass pass(config, "bf16");
    const auto stored = [&](const Tensor& x, Part part, Stream stream, std::uint32_t sublayer = 1) {
      return quantized(x, pass.choice.of(part), {pass.choice.seed, sublayer + 1, stream});
    };
    const Rounding rounding(find_tensor_format("bf16")->floating);
    const Tensor x = quick().normal(12, 32, DType::f64, {8, 0, Stream::input}, 1.0);
    const Tensor dy = quick().normal(12, 64, DType::f32, {9, 0, Stream::input}, 1.0);
    const Tensor w = stored(pass.drawn.fetch(1).matrix(Weight::up).map->dense(), Part::weights,
                            rounding_stream(Weight::up, Rounded::weight));
    const Tensor input = stored(x, Part::inputs, rounding_stream(Weight::up, Rounded::input));
    const Tensor gradient = stored(dy, Part::inputs, rounding_stream(Weight::up, Rounded::gradient));
    const SublayerWeights weights = pass.weights.fetch(1);
    const auto reading = weights.matrix(Weight::up).map->product(quick(), x, Save::for_backward);
    CHECK(host(reading->input()) == host(input));
    CHECK(host(reading->output()) == host(sums ? rounded_linear(input, w, rounding) : quick().linear(input, w)));
    CHECK(host(reading->backward(dy)) == host(sums ? rounded_linear_backward_input(gradient, w, rounding)
                                                   : quick().linear_backward_input(gradient, w)));
    const Tensor dw = sums ? rounded_linear_backward_weight(gradient, input, rounding)
                           : quick().linear_backward_weight(gradient, input);
    CHECK(host(reading->gradient(dy)) == host(dw));
    double found = 0.0, squares = 0.0;
    for (const double s : host(reading->gradient_squares(dy))) found += s;
    for (const double d : host(dw)) squares += d * d;
    CHECK(found == approx(squares).epsilon(1e-6));
    CHECK(host(weights.matrix(Weight::up).map->dense()) == host(w));
    // The format cannot represent 1.1, and every entry is rounded with its own random word.
    for (const auto& [weight, norm] : weights.norms) {
      const Tensor gain = pass.drawn.fetch(1).norms.at(weight).gain;
      CHECK(host(norm.gain) == host(stored(gain, Part::norms, rounding_stream(weight, Rounded::weight))));
      CHECK(host(norm.gain).front() != 1.1);
    }
    const Tensor signal = quick().normal(12, 32, DType::f32, {8, 0, Stream::input}, 1.0);
    struct Row {
      std::uint32_t sublayer;
      Signal signal;
      Pass pass;
      Rounded kind;
      double scale;  ///< loss scale of the gradient of the logits
    };
    for (const Row& r : {Row{1, Signal::hidden, Pass::forward, Rounded::signal, 1.0},
                         Row{1, Signal::hidden, Pass::recomputation, Rounded::signal, 1.0},
                         Row{1, Signal::hidden, Pass::backward, Rounded::gradient, 1.0},
                         Row{4, Signal::logits, Pass::forward, Rounded::signal, 1.0},
                         Row{4, Signal::logits, Pass::backward, Rounded::gradient, 8.0}}) {
      CHECK(host(pass.signals.replaced({static_cast<int>(r.sublayer), r.signal, r.pass}, signal)) ==
            host(stored(quick().scale(r.scale, signal), Part::modules, rounding_stream(r.signal, r.kind), r.sublayer)));
    }
  }
}

TEST_CASE("stochastic rounding: a token's row does not depend on its position; recomputation repeats the rounding") {
  FormatsConfig config = small_config("peri", {"bf16"});
  config.stochastic = true;
  FormatPass pass(config, "bf16");
  const std::vector<double> rows = host(pass.weights.rows(quick(), Weight::embedding, std::vector<int>{3, 5, 3}));
  const Tensor drawn = pass.drawn.rows(quick(), Weight::embedding, std::vector<int>{0, 1, 2, 3, 4, 5});
  const StreamKey key{pass.choice.seed, 0, rounding_stream(Weight::embedding, Rounded::weight)};
  const std::vector<double> table = host(quantized(drawn, pass.choice.of(Part::weights), key));
  const std::ptrdiff_t width = pass.spec.model.width;
  for (const std::ptrdiff_t at : {std::ptrdiff_t{0}, 2 * width}) {
    CHECK(std::equal(rows.begin() + at, rows.begin() + at + width, table.begin() + 3 * width));
  }
  const Tensor input = quantized(gaussian_input(quick(), pass.spec, DType::f64, 3), pass.choice.of(Part::stream), {});
  const auto gradient = [&](std::size_t budget) {
    StackTape tape;
    tape.budget = budget;
    const Hooks hooks{.replacers = {&pass.signals}};
    const Tensor output = stack_forward(pass.context, input, hooks, &tape).output;
    return host(stack_backward(tape, loss_of(pass.context, output, labels_of(pass.spec), hooks).gradient));
  };
  const std::vector<double> saved = gradient(64U << 20U);
  CHECK(gradient(0) == saved);
  pass.choice.seed = 4;
  CHECK(gradient(0) != saved);
}

}  // namespace
}  // namespace periscope::testing
