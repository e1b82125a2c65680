#include "tests/support/recorded_stack.h"

#include <algorithm>

#include "sim/measure/signal_store.h"

namespace periscope::testing {

RecordedStack record_stack(const StackContext& context, const Tensor& input) {
  SignalStore signals(Pass::forward);
  const StackOutput out = stack_forward(context, input, {.recorders = {&signals}});
  RecordedStack record;
  for (const auto& [place, x] : signals.all()) {
    if (place.first >= 0 && is_stream_signal(place.second)) record.site[place] = context.ops.to_host(x);
  }
  record.input = context.ops.to_host(signals.at(-1, Signal::x_out));
  record.stream = context.ops.to_host(out.stream);
  record.output = context.ops.to_host(out.output);
  return record;
}

RecordedStack record_stack(const Target& target, const StackSpec& spec, std::uint64_t seed) {
  const GeneratedWeights weights(*target.backend, spec, target.dtype, seed);
  return record_stack({.ops = *target.backend, .model = spec.model, .weights = weights},
                      gaussian_input(*target.backend, spec, target.dtype, seed));
}

StackSpec tiny_stack() {
  StackSpec spec;
  spec.model.layers = 2;
  spec.model.width = 12;
  spec.model.heads = 4;
  spec.model.kv_heads = 2;
  spec.model.head_dim = 6;
  spec.model.mlp_width = 10;
  spec.model.gamma = 0.8;
  spec.model.vocab = 16;
  spec.init.scheme = InitScheme::lecun;
  spec.input.tokens = 5;
  validate(spec);
  return spec;
}

StackSpec placed(StackSpec spec, std::string_view placement) {
  spec.model.placement = find_placement(placement).value();
  take_defaults(spec.model.placement, spec.model);
  return spec;
}

std::span<const Placement> rows_of_t1() {
  const std::span<const Placement> all = placement_table();
  const auto last = std::ranges::find(all, "residual-dual", &Placement::name);
  return all.first(static_cast<std::size_t>(last - all.begin()) + 1);
}

bool is_plain(const Placement& placement) {
  const PlacementDefaults& d = placement.defaults;
  const bool inside = d.qk_norm != QkNorm::none || d.v_norm || d.inner_norm != InnerNorm::none;
  const bool sublayers = placement.wiring == Wiring::sequential || placement.wiring == Wiring::dual;
  return sublayers && !inside && d.norm == NormKind::rms && !placement.at({}).scales_channels;
}

std::vector<double> second_moments(const std::vector<double>& x, int width) {
  const auto n = static_cast<std::size_t>(width);
  std::vector<double> q(x.size() / n, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) q[i / n] += x[i] * x[i] / width;
  return q;
}

}  // namespace periscope::testing
