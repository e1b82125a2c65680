#include "tests/scales/scaled_stack.h"

#include <cmath>
#include <memory>
#include <utility>

#include "experiments/engine/run/token_ids.h"
#include "sim/backends.h"
#include "sim/model/parameters.h"
#include "sim/random/normal.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

/// Adds tests of second moments after norm B. Verdicts omit these because norm B fixes them unless it has gains.
void add_branches(std::vector<judge::Test>& tests, const Measured& measured, const theory::Prediction& prediction) {
  const Curve& m = *measured.profile.find(Statistic::second_moment, Signal::B_out);
  const Curve& p = *prediction.profile.find(Statistic::second_moment, Signal::B_out);
  for (std::size_t i = 0; i < m.value.size(); ++i) {
    tests.push_back(
        {.signal = Signal::B_out,
         .index = static_cast<int>(i),
         .measured = {m.value[i], m.standard_error[i]},
         .predicted = {p.value[i], p.standard_error[i]},
         .tolerated_bias = config::AgreementOptions{}.finite_width * prediction.finite_width[i + 1] * p.value[i],
         .scale = p.value[i],
         .limit = 0.2,
         .seeds = measured.seeds,
         .replicates = prediction.replicates});
  }
}

}  // namespace

std::vector<double> normals(std::uint64_t place, std::size_t count) {
  std::vector<double> z(count);
  fill_normal<double>({place, 0, Stream::attack_start}, 0, 1.0, z);
  return z;
}

WeightScales uneven_scales(const StackSpec& spec) {
  WeightScales scales;
  std::uint64_t place = 0;
  for (int l = -1; l <= spec.model.sublayers(); ++l) {
    for (const Weight w : weights_in(spec.model, l)) {
      if (is_norm(w)) continue;
      const double init = is_table(w) ? 1.0 : std::sqrt(1.0 / shape_of(spec.model, w).fan_in);
      scales.stddev[matrix_id(l / 2, w)] = init * std::exp(0.3 * normals(++place, 1)[0]);
    }
  }
  for (const ParameterId& id : gains_of(spec.model)) {
    const auto n = static_cast<std::size_t>(norm_width(spec.model, id.weight, id.sublayer));
    const std::vector<double> common = normals(n, n);
    std::vector<double> gain = normals(1000 + ++place, n);
    const double wide = id.weight == Weight::norm_c ? 0.2 : 1.0;
    for (std::size_t k = 0; k < n; ++k) {
      gain[k] = std::exp(wide * (0.2 * gain[k] + 0.3 * common[k])) * (k % 3 == 0 ? -1.0 : 1.0);
    }
    scales.gains[id] = gain;
  }
  return scales;
}

StackSpec scaled_stack(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  ModelSpec& m = spec.model;
  m.layers = 4;
  m.width = 512;
  m.heads = 16;
  m.kv_heads = 8;
  m.head_dim = 32;
  m.mlp_width = 512;
  m.vocab = 40;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = 8;
  return spec;
}

StackSpec with(StackSpec spec, WeightScales scales) {
  spec.scales = std::make_shared<const WeightScales>(std::move(scales));
  validate(spec);
  return spec;
}

Measured measure(const StackSpec& spec, config::WeightsChoice weights, int seeds) {
  config::RunOptions run;
  run.dtype = DType::f32;
  run.weights = weights;
  stacks::Progress progress;
  const auto backend = make_backend("cpu");
  return {spec, stacks::measure_stack(*backend, spec, run, seeds, "", progress, [](const Reading&) {}).profile(),
          seeds};
}

judge::StackVerdict agreement_of(const Measured& measured, const StackSpec& overridden) {
  const theory::Prediction prediction =
      theory::predict(overridden, stacks::distinct_token_ids(overridden, config::RunOptions{}.seed, measured.seeds),
                      {.tolerance = 0.01});
  REQUIRE(prediction.unsupported == "");
  const config::AgreementOptions options;
  judge::StackVerdict agreement;
  agreement.tests = judge::stack_tests({.spec = overridden,
                                        .measured = {measured.profile, measured.seeds},
                                        .dtype = DType::f32,
                                        .prediction = prediction},
                                       options);
  add_branches(agreement.tests, measured, prediction);
  judge::judge({&agreement}, options.familywise_error);
  return agreement;
}

void check_agrees(const Measured& measured) {
  CAPTURE(measured.spec.model.placement.name);
  const judge::StackVerdict agreement = agreement_of(measured, measured.spec);
  const judge::Test& worst = agreement.worst_test();
  INFO(worst.name(), ": ", worst.measured.value, " +- ", worst.measured.error, ", predicted ", worst.predicted.value,
       " +- ", worst.predicted.error, ", excess ", worst.excess(), " of ", worst.critical, "; worst power ",
       agreement.power.worst);
  CHECK(agreement.verdict != judge::Verdict::disagrees);
}

StackSpec with_everything() {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.norm = NormKind::layer;
  spec.model.qk_norm = QkNorm::head;
  spec.model.embedding_norm = true;
  spec.model.embedding = {.width = 9, .positions = 8, .position_offset = 2, .token_types = 2};
  spec.input.kind = InputKind::tokens;
  return spec;
}

}  // namespace periscope::testing
