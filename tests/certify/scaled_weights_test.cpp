#include "sim/model/scaled_weights.h"
#include "experiments/studies/certify/headroom.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/core/config/parse_format.h"
#include "experiments/core/config/theory_parameters.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "tests/certify/any_model.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

/// The headroom advisor: signals scaled, function unchanged.
namespace periscope::testing {
namespace {

struct Outcome {
  RecordedStack stack;
  std::vector<double> logits;
};

Outcome outcome_of(const StackContext& c, const std::vector<int>& ids) {
  Outcome out;
  const Tensor input = embedding_forward(c, ids);
  out.stack = record_stack(c, input);
  const auto tokens = static_cast<Tensor::Index>(ids.size());
  const Tensor output = c.ops.from_host(tokens, c.model.width, DType::f64, out.stack.output);
  out.logits = c.ops.to_host(logits_forward(c, output));
  return out;
}

std::vector<double> times(double factor, std::vector<double> x) {
  for (double& v : x) v *= factor;
  return x;
}

/// ReLU can switch a whole branch off, and what a norm makes of nothing is not a number at eps 0.
StackSpec smooth_model() {
  StackSpec spec = any_model();
  if (spec.model.mlp == MlpKind::relu) spec.model.mlp = MlpKind::gelu;
  spec.model.norm_eps = 0.0;
  spec.input.kind = InputKind::tokens;
  if (!can_scale(spec.model)) spec.model.final_norm = true;
  return spec;
}

TEST_CASE("scaled weights: the stream is c times as large, branches k times, the logits are the same at eps 0") {
  CHECK(rc::check("scaled", [] {
    const StackSpec spec = smooth_model();
    StackScale scale{.stream = any_of({0.125, 3.0}), .branch = any_of({1.0, 0.25, 5.0})};
    // What a tied table needs keeps the function with two tables as well.
    const bool tied = spec.model.final_norm && !spec.model.ends().has_plain() && !spec.model.head.transform;
    scale.embedding = any_of({TableFactor::scale, TableFactor::table, TableFactor::tied_table});
    if (scale.embedding == TableFactor::tied_table && !tied) scale.embedding = TableFactor::table;
    const Backend& ops = truth();
    const GeneratedWeights plain(ops, spec, DType::f64, any_seed());
    const EditedWeights normed(plain, same_matrix, random_norms(ops));
    const BiasedWeights weights(ops, normed, any_of({0.0, 0.5}));
    const ScaledWeights scaled(ops, spec.model, weights, scale);
    const ModelSpec model = scaled_model(spec.model, scale);
    std::vector<int> ids(static_cast<std::size_t>(spec.input.tokens));
    for (int& id : ids) id = any_int(0, spec.model.vocab - 1);
    const Outcome before = outcome_of({.ops = ops, .model = spec.model, .weights = weights}, ids);
    const Outcome after = outcome_of({.ops = ops, .model = model, .weights = scaled}, ids);
    const double rounding = 1e3 * rounding_of(spec.model);
    assert_close(after.logits, before.logits, rounding);
    for (int l = 0; l < spec.model.sublayers(); ++l) {
      assert_close(after.stack.at(l, Signal::x_out), times(scale.stream, before.stack.at(l, Signal::x_out)), rounding);
      const double k = spec.model.rule(l).norm_b ? scale.branch : scale.stream;
      assert_close(after.stack.at(l, Signal::f_out), times(k, before.stack.at(l, Signal::f_out)), rounding);
    }
  }));
}

TEST_CASE("the certificate of a scaled stack is the scaled certificate, for the stream") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.norm_eps = 0.0;
  const Backend& ops = truth();
  const GeneratedWeights weights(ops, spec, DType::f64, 1);
  const StackScale scale{.stream = 0.25, .branch = 1.0};
  const ScaledWeights scaled(ops, spec.model, weights, scale);
  const theory::Certificate before =
      theory::certify(spec.model, config::TheoryParameters(ops, spec.model, weights), {});
  const theory::Certificate after =
      theory::certify(scaled_model(spec.model, scale), config::TheoryParameters(ops, spec.model, scaled), {});
  for (int l = -1; l < spec.model.sublayers(); ++l) {
    const double bound = before.find(Signal::x_out, l)->largest;
    CHECK(after.find(Signal::x_out, l)->largest == doctest::Approx(0.25 * bound).epsilon(1e-12));
  }
}

TEST_CASE("a format's headroom is that of the run that stores in it, or else of exact arithmetic") {
  const ModelSpec model = placed(tiny_stack(), "peri").model;
  const auto with_bounds = [](double stream, double branch) {
    theory::Certificate c;
    c.bounds = {{.signal = Signal::x_out, .sublayer = 0, .magnitude = {}, .largest = stream},
                {.signal = Signal::f_out, .sublayer = 0, .magnitude = {}, .largest = branch}};
    return c;
  };
  std::vector<theory::Certificate> runs{with_bounds(2.0, 32.0), with_bounds(4.0, 64.0)};
  runs[0].arithmetic = run_arithmetic(Arithmetic::mixed, config::parse_format("fp16"));
  runs[1].arithmetic = run_arithmetic(Arithmetic::mixed, config::parse_format("bf16"));
  const certify::Headroom h = certify::headroom_of(model, with_bounds(1.0, 16.0), nullptr, runs);
  REQUIRE(h.possible);
  CHECK(h.stream_bound == 1.0);
  CHECK(h.branch_bound == 16.0);
  CHECK(std::isnan(h.stream_measured));
  REQUIRE(h.formats.size() == number_formats.size());
  for (const certify::FormatHeadroom& f : h.formats) {
    CAPTURE(std::string(f.format.name));
    const double times = f.format.name == "fp16" ? 2.0 : f.format.name == "bf16" ? 4.0 : 1.0;
    CHECK(f.stream == f.format.largest / times);
    CHECK(f.branch == f.format.largest / (16.0 * times));
    CHECK(std::isnan(f.measured));
  }
}

TEST_CASE("the stream's size is a gauge where norms A and the final norm alone read it") {
  const std::vector<std::string_view> gauges{"pre",   "peri",   "lns",         "depth-scaled", "beam",
                                             "u-mup", "sub-ln", "layer-scale", "parallel",     "muse-spark",
                                             "x0",    "hyper",  "parallel-two"};
  for (const Placement& row : placement_table()) {
    CAPTURE(std::string(row.name));
    StackSpec spec = tiny_stack();
    spec.model.layers = 4;
    spec.model.placement = row;
    take_defaults(row, spec.model);
    const bool is_gauge = std::ranges::find(gauges, row.name) != gauges.end();
    CHECK(!gauge_refusal(spec.model, TableFactor::table).has_value() == is_gauge);
  }
  ModelSpec model = placed(tiny_stack(), "pre").model;
  const auto refusal = [&] { return gauge_refusal(model, TableFactor::tied_table).value_or(""); };
  CHECK(refusal().empty());
  model.head.transform = true;
  CHECK(refusal().find("head's transform") != std::string::npos);
  model.final_norm = false;
  CHECK(refusal().find("final norm") != std::string::npos);
  model.placement = find_placement("b-only").value();
  CHECK(refusal() == "without a norm A sublayer 0 reads the stream as it is");
  model.placement = find_placement("post").value();
  CHECK(refusal() == "norm C sets the size of the stream, first after addition 0");
  model.norm = NormKind::dyt;
  CHECK(refusal().find("something else") != std::string::npos);
}

TEST_CASE("gains alone are enough for Peri-LN, not for B-only and not for Pre-LN") {
  StackSpec spec = tiny_stack();
  CHECK(recipe_of(placed(spec, "peri").model).gains_alone);
  CHECK_FALSE(recipe_of(placed(spec, "b-only").model).gains_alone);
  CHECK_FALSE(recipe_of(placed(spec, "pre").model).gains_alone);
}

}  // namespace
}  // namespace periscope::testing
