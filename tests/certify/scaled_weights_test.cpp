#include "sim/model/scaled_weights.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/engine/run/rescaled_stack.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/theory_parameters.h"
#include "experiments/studies/certify/certify.h"
#include "tests/certify/any_model.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/edited_weights.h"
#include "tests/support/outcome.h"

/// The headroom advisor: signals scaled, function unchanged.
namespace periscope::testing {
namespace {

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

TEST_CASE("what grows with the stream and with the branches: the largest of every such signal") {
  const auto reach = [](std::string_view placement, Signal signal, MlpKind mlp = MlpKind::swiglu) {
    StackSpec spec = placed(tiny_stack(), std::string(placement));
    spec.model.mlp = mlp;
    theory::Certificate c;
    c.bounds = {{.signal = signal, .sublayer = 1, .magnitude = {}, .largest = 7.0}};
    const stacks::GrowingBounds found = stacks::growing_bounds(spec.model, c);
    return std::pair(found.stream, found.branch);
  };
  const std::pair stream(7.0, 0.0);
  const std::pair branch(0.0, 7.0);
  const std::pair neither(0.0, 0.0);
  for (const Signal signal : {Signal::x_out, Signal::sum, Signal::r_out, Signal::B_out, Signal::input}) {
    CAPTURE(std::string(name_of(signal)));
    CHECK(reach("peri", signal) == stream);
  }
  CHECK(reach("pre", Signal::f_out) == stream);
  CHECK(reach("peri", Signal::f_out) == branch);
  for (const Signal signal : {Signal::up, Signal::hidden}) {
    CHECK(reach("peri", signal) == branch);
    CHECK(reach("peri", signal, MlpKind::gelu) == neither);
    CHECK(reach("pre", signal) == neither);
  }
  for (const Signal signal : {Signal::A_out, Signal::gate, Signal::logits}) CHECK(reach("peri", signal) == neither);
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
  const auto scaled = [&](const StackScale& scale, const theory::Certificate& like) {
    theory::Certificate c = like;
    c.bounds[0].largest *= scale.stream;
    c.bounds[1].largest *= scale.branch;
    return c;
  };
  const theory::Certificate exact = with_bounds(1.0, 16.0);
  const std::vector<NumberFormat> formats{config::parse_format("fp16"), config::parse_format("bf16")};
  const certify::Headroom h = certify::headroom_of(model, {exact, runs}, formats, nullptr, scaled);
  REQUIRE(h.formats.size() == 2);
  for (const certify::FormatHeadroom& f : h.formats) {
    CAPTURE(std::string(f.format.name));
    CHECK(std::isnan(f.measured));
    CHECK(f.reason.empty());
    CHECK(f.fitting.branch == 1.0);
    if (f.format.name == "fp16") {  // 65504 over 2 and over 32
      CHECK(f.stream == 16384.0);
      CHECK(f.branch == 1024.0);
    } else {  // bf16: the search ends there
      CHECK(f.stream == 0x1p40);
      CHECK(f.branch == 0x1p40);
    }
  }
  const auto of_exact = certify::headroom_of(model, {exact}, std::span(formats).first(1), nullptr, scaled).formats;
  CHECK(of_exact.at(0).stream == 32768.0);
}

/// The headroom of a planted run in FP16: a stream of 1, and another bound that grows as c to the `power`.
certify::FormatHeadroom headroom_beside(Signal signal, double bound, double power, const RunArithmetic& run,
                                        int& certificates) {
  const ModelSpec model = placed(tiny_stack(), "pre").model;
  theory::Certificate c{.bounds = {{.signal = Signal::x_out, .sublayer = 0, .magnitude = {}, .largest = 1.0},
                                   {.signal = signal, .sublayer = 1, .magnitude = {}, .largest = bound}},
                        .arithmetic = run};
  certificates = 0;
  const auto scaled = [&](const StackScale& scale, const theory::Certificate& like) {
    ++certificates;
    theory::Certificate of = like;
    of.bounds[0].largest *= scale.stream;
    of.bounds[1].largest *= std::pow(scale.stream, power);
    return of;
  };
  const std::vector<theory::Certificate> runs{c};
  return certify::headroom_of(model, {c, runs}, std::span(&run.stored, 1), nullptr, scaled).formats.at(0);
}

TEST_CASE("no factor of the stream is certified if a class overflows that does not shrink with it") {
  const NumberFormat half = config::parse_format("fp16");
  const RunArithmetic mixed = run_arithmetic(Arithmetic::mixed, half);
  int certificates = 0;
  // The search for c ends after two certificates.
  const certify::FormatHeadroom never = headroom_beside(Signal::up, 1e5, 0.0, mixed, certificates);
  CHECK(std::isnan(never.stream));
  CHECK(never.fitting.stream == 32768.0);
  CHECK(never.reason == "up, layer 0 MLP, feature 0: may reach 1e+05 > 65504");
  CHECK(certificates <= 2);
  CHECK(std::isnan(headroom_beside(Signal::x_out, 1e300, 1.0, mixed, certificates).stream));
  CHECK(headroom_beside(Signal::up, 0x1p51, 1.0, mixed, certificates).stream == 0x1p-36);
  // Squares of pure arithmetic: 1e6 c² up to 65504. The stream alone would allow 32768.
  const RunArithmetic pure = run_arithmetic(Arithmetic::pure, half);
  CHECK(headroom_beside(Signal::squares, 1e6, 2.0, pure, certificates).stream == 0.25);
  CHECK(headroom_beside(Signal::squares, 1e-2, 2.0, pure, certificates).stream == 2048.0);
  CHECK(headroom_beside(Signal::up, 65504.0, 0.0, mixed, certificates).stream == 32768.0);
  CHECK(certificates == 1);
}

TEST_CASE("the factor that is said to be certified is the largest whose scaled stack is certified everywhere") {
  // Of a small stream a run's bounds are rounding near zero, which does not grow with c.
  const std::vector<std::pair<const char*, double>> streams{
      {"pre", 1.0},      {"pre", 0x1p-22}, {"pre", 0x1p-40},  {"peri", 1.0},
      {"peri", 0x1p-40}, {"post", 1.0},    {"post", 0x1p-40},
  };
  for (const std::pair<const char*, double>& stream : streams) {
    const char* const placement = stream.first;
    const double size = stream.second;
    CAPTURE(size);
    StackSpec spec = placed(tiny_stack(), placement);
    spec.input.kind = InputKind::tokens;
    const GeneratedWeights drawn(truth(), spec, DType::f64, 1);
    const ScaledWeights weights(truth(), spec.model, drawn, {.stream = size, .embedding = TableFactor::table});
    const StackContext context{truth(), spec.model, weights, 1};
    const config::TheoryParameters parameters(truth(), spec.model, weights);
    const theory::Certificate exact = theory::certify(spec.model, parameters, {});
    std::vector<theory::Certificate> runs;
    for (const char* format : {"bf16", "fp16", "fp8_e5m2"}) {
      for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
        CAPTURE(std::string(placement));
        CAPTURE(std::string(format));
        CAPTURE(static_cast<int>(kind));
        runs = {theory::certify(spec.model, parameters, {}, run_arithmetic(kind, config::parse_format(format)), 8)};
        const certify::CertifyScaled certify_at = certify::certify_scaled(context, {});
        const NumberFormat stored = runs[0].arithmetic.stored;
        const certify::Headroom h = certify::headroom_of(spec.model, {exact, runs}, std::span(&stored, 1), nullptr,
                                                         certify_at, TableFactor::table);
        const auto f = h.formats.begin();
        const auto holds = [&](StackScale scale) { return theory::verdict(certify_at(scale, runs[0]), {}).certified; };
        if (std::isnan(f->stream)) {
          CHECK_FALSE(f->reason.empty());
          CHECK_FALSE(holds(f->fitting));
          continue;
        }
        StackScale scale = f->fitting;
        scale.stream = f->stream;
        CHECK(holds(scale));
        scale.stream *= 2.0;
        if (f->stream < 0x1p40) CHECK_FALSE(holds(scale));
        if (std::isnan(f->branch)) continue;
        scale = {.stream = f->stream, .branch = f->branch, .embedding = TableFactor::table};
        CHECK(holds(scale));
        scale.branch *= 2.0;
        if (f->branch < 0x1p40) CHECK_FALSE(holds(scale));
      }
    }
  }
}

TEST_CASE("a factor of the embedding's table may be no number of the format, one of its scale must be") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.input.kind = InputKind::tokens;
  spec.init.scheme = InitScheme::normal;
  spec.init.std = 1e-3;
  spec.input.second_moment = 1e-4;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  const StackContext context{truth(), spec.model, weights, 1};
  const config::TheoryParameters parameters(truth(), spec.model, weights);
  const theory::Certificate exact = theory::certify(spec.model, parameters, {});
  const RunArithmetic mixed = run_arithmetic(Arithmetic::mixed, config::parse_format("fp16"));
  const std::vector<theory::Certificate> runs{theory::certify(spec.model, parameters, {}, mixed, 8)};
  const certify::CertifyScaled certify_at = certify::certify_scaled(context, {});
  const auto largest = [&](TableFactor embedding) {
    return certify::headroom_of(spec.model, {exact, runs}, std::span(&mixed.stored, 1), nullptr, certify_at, embedding)
        .formats.at(0)
        .stream;
  };
  CHECK(largest(TableFactor::scale) == 32768.0);
  CHECK(largest(TableFactor::table) >= 65536.0);
  const theory::Certificate scaled = certify_at({.stream = 65536.0, .embedding = TableFactor::scale}, runs[0]);
  const theory::Verdict all = theory::verdict(scaled, {});
  REQUIRE_FALSE(all.certified);
  CHECK(certify::reason_of(all, spec.model).find(": no finite bound, limit 65504") != std::string::npos);
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
    CHECK(!gauge_unsupported(spec.model, TableFactor::table).has_value() == is_gauge);
  }
  ModelSpec model = placed(tiny_stack(), "pre").model;
  const auto rejection = [&] { return gauge_unsupported(model, TableFactor::tied_table).value_or(""); };
  CHECK(rejection().empty());
  model.head.transform = true;
  CHECK(rejection().find("head's transform") != std::string::npos);
  model.final_norm = false;
  CHECK(rejection().find("final norm") != std::string::npos);
  model.placement = find_placement("b-only").value();
  CHECK(rejection() == "sublayer 0 has no norm A");
  model.placement = find_placement("post").value();
  CHECK(rejection() == "norm C fixes the scale of the stream, first after addition 0");
  model.norm = NormKind::dyt;
  CHECK(rejection().find("something else") != std::string::npos);
}

TEST_CASE("gains alone are enough for Peri-LN, not for B-only and not for Pre-LN") {
  StackSpec spec = tiny_stack();
  CHECK(recipe_of(placed(spec, "peri").model).gains_alone);
  CHECK_FALSE(recipe_of(placed(spec, "b-only").model).gains_alone);
  CHECK_FALSE(recipe_of(placed(spec, "pre").model).gains_alone);
}

}  // namespace
}  // namespace periscope::testing
