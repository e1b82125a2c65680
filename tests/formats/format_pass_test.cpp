#include "experiments/studies/formats/format_pass.h"

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/stacks.h"
#include "sim/emulated/quantize.h"
#include "sim/emulated/rounded_product.h"
#include "sim/measure/signal_store.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"
#include "tests/emulated/backend.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// Passes in a format against plain f32, against the emulated ops, and against the steps written out.
namespace periscope::testing {
namespace {

using formats::FormatChoice;
using formats::FormatsConfig;
using formats::FormatSignals;
using formats::FormatWeights;
using formats::Part;

/// Everything that a pass in a format needs.
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

/// ‖x − y‖², of y alone where there is no x.
double square_of_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += std::pow(y[i] - (x.empty() ? 0.0 : x[i]), 2);
  return sum;
}

std::vector<int> labels_of(const StackSpec& spec) {
  std::vector<int> labels;
  for (int t = 0; t < spec.input.tokens; ++t) labels.push_back(t * 5 % spec.model.vocab);
  return labels;
}

TEST_CASE("all in fp32 is the plain pass in f32, bit for bit, forward and backward") {
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

/// How many entries differ, if each is a number of the format beside the other; else all of them.
std::size_t beside(const std::vector<double>& a, const std::vector<double>& b, const NumberFormat& format) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double step = std::max(std::abs(a[i]), std::abs(b[i])) * format.spacing_at_1() + format.smallest_subnormal();
    if (std::abs(a[i] - b[i]) > step) return a.size();
    different += a[i] != b[i] ? 1 : 0;
  }
  return different;
}

TEST_CASE("an MLP sublayer in bf16 is that of the emulated ops, which store every result") {
  for (const char* placement : {"post", "pre", "peri"}) {
    INFO(placement);
    FormatsConfig config = small_config(placement, {"bf16"});
    config.base.model.mlp = MlpKind::relu;
    FormatPass pass(config, "bf16");
    const NumberFormat bf16 = find_tensor_format("bf16")->floating;
    const Quantization held = pass.choice.of(Part::stream);
    const Tensor x = quantized(gaussian_input(quick(), pass.spec, DType::f64, 3), held, {});
    StepPass quick_pass(pass.context, {.replacers = {&pass.signals}}, 1, Pass::forward, Save::nothing);
    const Tensor found = step_forward(quick_pass, {x}).front();
    // The emulated ops take f64 tensors and rounded weights; their sums are exact where ours are in f32.
    const auto emulated =
        make_emulated_backend(truth(), {.arithmetic = {Arithmetic::mixed, bf16, fp64}, .norm = NormForm::accumulated});
    const GeneratedWeights drawn(*emulated, pass.spec, DType::f64, 3);
    const StackContext context{.ops = *emulated, .model = pass.spec.model, .weights = drawn};
    StepPass emulated_pass(context, {}, 1, Pass::forward, Save::nothing);
    const Tensor start = truth().from_host(x.rows(), x.cols(), DType::f64, quick().to_host(x));
    const Tensor expected = step_forward(emulated_pass, {start}).front();
    // Sums of 64 terms in f32 are within about 2^-20 of the exact ones: one in 2^11 is next to a tie of 2^-9, and a
    // different number on the way changes the next ones by a bit each.
    CHECK(beside(quick().to_host(found), truth().to_host(expected), bf16) <= 12);  // of 384
  }
}

TEST_CASE("the backward pass through an MLP in FP16, step by step: every gradient is stored, and read as it is held") {
  FormatsConfig config = small_config("pre", {"fp16"});
  config.base.model.mlp = MlpKind::relu;
  config.format = {"int8"};
  config.covers = {"inputs", "weights"};
  config.rest = "fp16";
  FormatPass pass(config, "int8");
  const auto stored = [&](const Tensor& x) { return quantized(x, pass.choice.of(Part::modules), {}); };
  const auto read = [&](const Tensor& x) { return quantized(x, pass.choice.of(Part::inputs), {}); };
  const Tensor x = stored(gaussian_input(quick(), pass.spec, DType::f64, 3));
  const Tensor dx = stored(quick().normal(x.rows(), x.cols(), DType::f64, {4, 0, Stream::input}, 1.0));
  SignalStore forward(Pass::forward);
  SignalStore backward(Pass::backward);
  StepPass p(pass.context, {.recorders = {&forward, &backward}, .replacers = {&pass.signals}}, 1, Pass::forward,
             Save::for_backward);
  (void)step_forward(p, {x});
  (void)step_backward(p, {dx});
  const auto weights = pass.drawn.fetch(1);
  const auto held = [&](Weight w) {
    return quantized(weights.matrix(w).map->dense(), pass.choice.of(Part::weights), {});
  };
  const Tensor dhidden = stored(quick().linear_backward_input(read(dx), held(Weight::down)));
  CHECK(quick().to_host(backward.at(1, Signal::hidden)) == quick().to_host(dhidden));
  const Tensor dup = stored(quick().activate_backward(Activation::relu, forward.at(1, Signal::up), dhidden));
  CHECK(quick().to_host(backward.at(1, Signal::up)) == quick().to_host(dup));
  const Tensor da = stored(quick().linear_backward_input(read(dup), held(Weight::up)));
  CHECK(quick().to_host(backward.at(1, Signal::A_out)) == quick().to_host(da));
  const Tensor hidden = stored(quick().activate(Activation::relu, forward.at(1, Signal::up)));
  CHECK(quick().to_host(forward.at(1, Signal::hidden)) == quick().to_host(hidden));
  CHECK(quick().to_host(forward.at(1, Signal::f_out)) ==
        quick().to_host(stored(quick().linear(read(hidden), held(Weight::down)))));
}

TEST_CASE("stochastic rounding: a token's row is the same wherever it stands, and that of the table") {
  FormatsConfig config = small_config("peri", {"bf16"});
  config.stochastic = true;
  const FormatPass pass(config, "bf16");
  const std::vector<int> ids{3, 5, 3};
  const std::vector<double> rows = quick().to_host(pass.weights.rows(quick(), Weight::embedding, ids));
  const auto width = static_cast<std::ptrdiff_t>(pass.spec.model.width);
  CHECK(std::equal(rows.begin(), rows.begin() + width, rows.begin() + 2 * width));
  const std::vector<int> first_six{0, 1, 2, 3, 4, 5};
  const Tensor drawn = pass.drawn.rows(quick(), Weight::embedding, first_six);
  const StreamKey key{pass.choice.seed, 0, rounding_stream(Weight::embedding, Rounded::weight)};
  const std::vector<double> table = quick().to_host(quantized(drawn, pass.choice.of(Part::weights), key));
  CHECK(std::equal(rows.begin(), rows.begin() + width, table.begin() + 3 * width));
}

TEST_CASE("stochastic rounding: whatever a product reads has a stream of its own, in the backward pass too") {
  for (const bool sums : {false, true}) {
    FormatsConfig config = small_config("peri", {"bf16"});
    config.stochastic = true;
    config.base.model.gamma = 1.1;
    config.accumulates_in_format = sums;
    FormatPass pass(config, "bf16");
    const auto held = [&](const Tensor& x, Part part, Stream stream) {
      return quantized(x, pass.choice.of(part), {pass.choice.seed, 2, stream});  // sublayer 1
    };
    const Rounding rounding(find_tensor_format("bf16")->floating);
    const Tensor x = quick().normal(12, 32, DType::f64, {8, 0, Stream::input}, 1.0);
    const Tensor dy = quick().normal(12, 64, DType::f32, {9, 0, Stream::input}, 1.0);
    const Tensor w = held(pass.drawn.fetch(1).matrix(Weight::up).map->dense(), Part::weights,
                          rounding_stream(Weight::up, Rounded::weight));
    const Tensor input = held(x, Part::inputs, rounding_stream(Weight::up, Rounded::input));
    const Tensor gradient = held(dy, Part::inputs, rounding_stream(Weight::up, Rounded::gradient));
    const SublayerWeights weights = pass.weights.fetch(1);
    const auto reading = weights.matrix(Weight::up).map->product(quick(), x, Save::for_backward);
    const auto values = [](const Tensor& t) { return quick().to_host(t); };
    CHECK(values(reading->input()) == values(input));
    CHECK(values(reading->output()) == values(sums ? rounded_linear(input, w, rounding) : quick().linear(input, w)));
    CHECK(values(reading->backward(dy)) == values(sums ? rounded_linear_backward_input(gradient, w, rounding)
                                                       : quick().linear_backward_input(gradient, w)));
    const Tensor dw = sums ? rounded_linear_backward_weight(gradient, input, rounding)
                           : quick().linear_backward_weight(gradient, input);
    CHECK(values(reading->gradient(dy)) == values(dw));
    double squares = 0.0;
    for (const double s : values(reading->gradient_squares(dy))) squares += s;
    CHECK(squares == doctest::Approx(square_of_difference({}, values(dw))).epsilon(1e-6));
    CHECK(values(weights.matrix(Weight::up).map->dense()) == values(w));
    // A gain of 1.1 is no number of the format: every entry goes its own way.
    for (const auto& [weight, norm] : weights.norms) {
      const Tensor gain =
          held(pass.drawn.fetch(1).norms.at(weight).gain, Part::norms, rounding_stream(weight, Rounded::weight));
      CHECK(values(norm.gain) == values(gain));
      CHECK(values(norm.gain).front() != 1.1);
    }
  }
}

TEST_CASE("stochastic rounding: a signal and its gradient have streams of their own; the loss scale enters once") {
  FormatsConfig config = small_config("peri", {"bf16"});
  config.stochastic = true;
  config.loss_scale = 8.0;
  FormatPass pass(config, "bf16");
  const Tensor x = quick().normal(12, 32, DType::f32, {8, 0, Stream::input}, 1.0);
  const auto held = [&](const Tensor& y, int sublayer, Signal signal, Rounded what) {
    return quick().to_host(
        quantized(y, pass.choice.of(Part::modules),
                  {pass.choice.seed, static_cast<std::uint32_t>(sublayer + 1), rounding_stream(signal, what)}));
  };
  const auto found = [&](int sublayer, Signal signal, Pass way) {
    return quick().to_host(pass.signals.replaced({sublayer, signal, way}, x));
  };
  CHECK(found(1, Signal::hidden, Pass::forward) == held(x, 1, Signal::hidden, Rounded::signal));
  CHECK(found(1, Signal::hidden, Pass::recomputation) == held(x, 1, Signal::hidden, Rounded::signal));
  CHECK(found(1, Signal::hidden, Pass::backward) == held(x, 1, Signal::hidden, Rounded::gradient));
  CHECK(found(4, Signal::logits, Pass::forward) == held(x, 4, Signal::logits, Rounded::signal));
  CHECK(found(4, Signal::logits, Pass::backward) == held(quick().scale(8.0, x), 4, Signal::logits, Rounded::gradient));
}

TEST_CASE("stochastic rounding: a recomputation is rounded like the pass") {
  FormatsConfig config = small_config("peri", {"bf16"});
  config.stochastic = true;
  FormatPass pass(config, "bf16");
  const Tensor input = quantized(gaussian_input(quick(), pass.spec, DType::f64, 3), pass.choice.of(Part::stream), {});
  const auto gradient = [&](std::size_t budget) {
    StackTape tape;
    tape.budget = budget;
    const Hooks hooks{.replacers = {&pass.signals}};
    const Tensor output = stack_forward(pass.context, input, hooks, &tape).output;
    return quick().to_host(stack_backward(tape, loss_of(pass.context, output, labels_of(pass.spec), hooks).gradient));
  };
  const std::vector<double> kept = gradient(64U << 20U);
  CHECK(gradient(0) == kept);
  pass.choice.seed = 4;
  CHECK(gradient(0) != kept);
}

TEST_CASE("what holds which signal") {
  const auto part = [](std::string_view placement, Signal signal, Pass pass = Pass::forward, int sublayer = 1) {
    return formats::part_of(small_config(placement, {}).base.model, {sublayer, signal, pass});
  };
  CHECK(part("pre", Signal::A_out) == Part::norms);
  CHECK(part("post", Signal::A_out) == Part::stream);
  CHECK(part("peri", Signal::B_out) == Part::norms);
  CHECK(part("pre", Signal::B_out) == Part::modules);
  CHECK(part("pre", Signal::x_in) == std::nullopt);
  CHECK(part("pre", Signal::x_in, Pass::backward) == Part::stream);
  CHECK(part("pre", Signal::up_in) == std::nullopt);
  CHECK(part("pre", Signal::up_in, Pass::backward) == Part::modules);
  CHECK(part("pre", Signal::scores) == std::nullopt);
  CHECK(part("pre", Signal::output, Pass::forward, 4) == Part::norms);
  CHECK(part("post", Signal::output, Pass::forward, 4) == Part::stream);
  CHECK(part("post", Signal::sum) == Part::stream);
  CHECK(part("post", Signal::hidden) == Part::modules);
  FormatsConfig in_format = small_config("pre", {});
  in_format.accumulates_in_format = true;
  // Sums of whole numbers, and those in fp32, are what they are without being rounded step by step.
  for (const TensorFormat& format : tensor_formats) {
    const bool rounded = !format.is_integer() && format.name != fp32.name;
    CHECK(formats::format_choice_for(in_format, format, 0).sums.has_value() == rounded);
  }
  const FormatsConfig config = small_config("pre", {"int8", "fp8_e4m3", "fp16"});
  for (const auto& [name, everything] : {std::pair("int8", false), {"fp8_e4m3", false}, {"fp16", true}}) {
    const FormatChoice choice = formats::format_choice_for(config, *find_tensor_format(name), 0);
    CHECK(choice.of(Part::weights).format.name == name);
    CHECK(choice.of(Part::inputs).format.name == name);
    CHECK(choice.of(Part::stream).format.name == (everything ? name : "bf16"));
    CHECK(choice.of(Part::weights).scale == (everything ? ScaleOver::nothing : ScaleOver::row));
    CHECK(choice.of(Part::stream).scale == ScaleOver::nothing);
  }
}

}  // namespace
}  // namespace periscope::testing
