#include "experiments/studies/formats/formats.h"

#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/formats/format_pass.h"
#include "experiments/studies/formats/noise_budget.h"
#include "sim/measure/gradient_probe.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"

namespace periscope::formats {
namespace {

void pass_through(const StackContext& context, const Tensor& input, const std::vector<int>& labels,
                  const Hooks& hooks) {
  if (labels.empty()) {
    (void)logits_forward(context, stack_forward(context, input, hooks).output, hooks);
  } else {
    (void)backpropagate(context, input, labels, hooks);
  }
}

}  // namespace

SeedReading read_seed(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                      const StackSpec& spec, std::uint64_t seed) {
  const bool backward = config.run.backward;
  const GeneratedWeights weights(ops, spec, DType::f64, seed);
  const StackContext exact{.ops = ops, .model = spec.model, .weights = weights};
  const Tensor drawn = stacks::stack_input(exact, spec, DType::f64, seed);
  const std::vector<int> labels = backward ? stacks::label_ids(spec, seed) : std::vector<int>{};
  SeedReading reading;
  for (std::size_t variant = 0; variant < variants_of(config); ++variant) {
    const auto planted = [&](const Tensor& x) {
      if (variant == 0) return x;
      std::vector<double> values = ops.to_host(x);
      for (Tensor::Index i = 0; i < x.size(); ++i) {
        if (i % x.cols() < config.massive_features) values[static_cast<std::size_t>(i)] *= config.massive;
      }
      return ops.from_host(x.rows(), x.cols(), x.dtype(), values);
    };
    const Tensor input = planted(drawn);
    std::vector<PassReading>& passes = reading.emplace_back();
    DeviationProbe truth(ops, spec.model);
    GradientProbe gradients(exact);
    pass_through(exact, input, labels, {.recorders = {&truth}, .gradients = {&gradients}});
    passes.push_back(truth.take());
    Profile of_weights;
    gradients.take_into(of_weights);
    for (const TensorFormat& format : formats) {
      const Holding holding = holding_for(config, format, seed);
      const FormatWeights held(weights, holding);
      const StackContext context{.ops = ops, .model = spec.model, .weights = held};
      FormatSignals signals(ops, spec.model, holding);
      DeviationProbe probe(ops, spec.model, &truth, holding.loss_scale);
      // Drawn inputs are rounded once, from f64; those from a table are what its rows in the format give.
      const Tensor start = spec.input.kind == InputKind::gaussian
                               ? signals.replaced({-1, Signal::input, Pass::recomputation}, input)
                               : planted(stacks::stack_input(context, spec, DType::f32, seed));
      pass_through(context, start, labels, {.recorders = {&probe}, .replacers = {&signals}});
      passes.push_back(probe.take());
      if (backward && spec.model.ends().streams() == 1) {
        passes.back().predicted =
            predicted_sqnr(ops, spec, truth, of_weights, holding, {ops.to_host(drawn), ops.to_host(input)});
      }
    }
  }
  return reading;
}

}  // namespace periscope::formats
