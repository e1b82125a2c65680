#include "sim/model/scaled_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "experiments/engine/settings/config.h"
#include "experiments/studies/certify/certify.h"
#include "sim/random/philox.h"
#include "tests/certify/certified_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/outcome.h"
#include "tests/support/stack_table.h"
#include "tests/support/weight_contract.h"

/// Tests the headroom advisor: it scales signals without changing the function.
namespace periscope::testing {
namespace {

/// Compares logits, stream and branches before and after scaling the weights of a stack, at eps 0.
void check_scaled(StackSpec spec, std::uint32_t seed, double bias, StackScale scale) {
  // ReLU can switch a whole branch off, and a norm of zeros is NaN at eps 0.
  if (spec.model.mlp == MlpKind::relu) spec.model.mlp = MlpKind::gelu;
  spec.model.norm_eps = 0.0;
  if (!can_scale(spec.model)) spec.model.final_norm = true;
  if (!can_scale(spec.model)) return;
  // The factors for a tied table also preserve the function of two separate tables.
  const bool tied =
      spec.model.unembedding && spec.model.final_norm && !spec.model.ends().has_plain() && !spec.model.head.transform;
  if (!tied && scale.embedding == TableFactor::tied_table) scale.embedding = TableFactor::table;
  const CertifiedStack c(spec, seed, bias);
  const ScaledWeights scaled(truth(), spec.model, c.weights, scale);
  const ModelSpec model = scaled_model(spec.model, scale);
  std::vector<int> ids(static_cast<std::size_t>(spec.input.tokens));
  fill_uniform_int({seed, 0, Stream::token_ids}, spec.model.vocab, ids);
  const Outcome before = outcome_of(c.context(), ids);
  const Outcome after = outcome_of({.ops = truth(), .model = model, .weights = scaled}, ids);
  constexpr double rounding = 1e-9;
  check_close_to_scale("logits", after.logits, before.logits, rounding);
  for (int s = 0; s < spec.model.steps(); ++s) {
    check_close_to_scale("x_out", after.stack.at(s, Signal::x_out),
                         times(scale.stream, before.stack.at(s, Signal::x_out)), rounding);
  }
  for (int l = 0; l < spec.model.sublayers(); ++l) {
    const double k = spec.model.rule(l).norm_b ? scale.branch : scale.stream;
    check_close_to_scale("f_out", after.stack.at(l, Signal::f_out), times(k, before.stack.at(l, Signal::f_out)),
                         rounding);
  }
}

TEST_CASE("scaled weights: the stream is c times as large, branches k times, the logits are the same at eps 0") {
  constexpr std::array tables{TableFactor::scale, TableFactor::table, TableFactor::tied_table};
  for (std::uint32_t index = 0; index < 100; ++index) {
    CAPTURE(index);
    verify::Draw draw({9, index, Stream::soundness_checkpoint});
    const StackSpec spec = random_stack(draw);
    check_scaled(spec, index, draw.of({0.0, 0.5}),
                 {.stream = draw.of({0.125, 3.0}),
                  .branch = draw.of({1.0, 0.25, 5.0}),
                  .embedding = draw.of({tables[0], tables[1], tables[2]})});
  }
  std::vector<NamedStack> stacks = stacks_of_every_kind();
  for (const InnerNorm inner : {InnerNorm::o, InnerNorm::down}) {
    StackSpec spec = placed(tiny_stack(), "peri");
    spec.model.inner_norm = inner;
    stacks.push_back({"peri with an inner norm", spec});
  }
  for (std::uint32_t i = 0; i < stacks.size(); ++i) {
    CAPTURE(stacks[i].name);
    StackSpec& spec = stacks[i].spec;
    spec.input.kind = InputKind::tokens;
    check_scaled(spec, i, 0.5, {.stream = 3.0, .branch = 0.25, .embedding = tables[i % tables.size()]});
  }
}

TEST_CASE("factors of 1 and zero biases leave weights unchanged; rows of a table equal those of its matrix") {
  const DistinctWeights source;
  for (const Placement& placement : placement_table()) {
    const ModelSpec model = placed(tiny_stack(), placement.name).model;
    check_same_weights(ScaledWeights(truth(), model, source, {}), source);
  }
  check_same_weights(BiasedWeights(truth(), source, 0.0), source);
  for (const bool embedding_norm : {false, true}) {
    ModelSpec model = placed(tiny_stack(), "peri").model;
    model.embedding_norm = embedding_norm;
    check_rows_of_tables(ScaledWeights(truth(), model, source, {.stream = 3.0}));
  }
}

TEST_CASE("theory reads the rows of a table larger than one block in order") {
  StackSpec spec = token_stack("pre");
  spec.model.vocab = 2 * 4096 + 3;
  const GeneratedWeights weights(truth(), spec, DType::f64, 1);
  std::vector<int> ids(static_cast<std::size_t>(spec.model.vocab));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<double> read;
  const config::TheoryParameters parameters(truth(), spec.model, weights);
  parameters.visit_rows(Weight::embedding, [&](Eigen::Index first, const theory::RowMatrix& rows) {
    CHECK(static_cast<std::size_t>(first * rows.cols()) == read.size());
    read.insert(read.end(), rows.data(), rows.data() + rows.size());
  });
  CHECK((read == truth().to_host(weights.rows(truth(), Weight::embedding, ids))));
}

TEST_CASE("headroom: the certified factor is the largest power of two whose scaled stack is certified") {
  int certified = 0;
  // For a stream scaled by 2^-40, rounding errors near zero, which do not scale with the stream, dominate the bounds.
  for (const char* placement : {"pre", "peri", "post"}) {
    for (const double size : {1.0, 0x1p-40}) {
      const StackSpec spec = token_stack(placement);
      const GeneratedWeights drawn(truth(), spec, DType::f64, 1);
      const ScaledWeights weights(truth(), spec.model, drawn, {.stream = size, .embedding = TableFactor::table});
      const StackContext context{truth(), spec.model, weights, 1};
      const theory::Certificate exact = certify(spec.model, weights);
      for (const char* name : {"bf16", "fp16", "fp8_e5m2"}) {
        for (const Arithmetic kind : {Arithmetic::mixed, Arithmetic::pure}) {
          INFO(placement, " ", size, " ", name, " ", arithmetic_names[static_cast<std::size_t>(kind)]);
          const NumberFormat format = config::parse_format(name);
          const std::vector runs{certify(spec.model, weights, {}, run_arithmetic(kind, format), 8)};
          const certify::CertifyScaled certify_at = certify::certify_scaled(context, {});
          const certify::FormatHeadroom f = certify::headroom_of(spec.model, {exact, runs}, std::span(&format, 1),
                                                                 nullptr, certify_at, TableFactor::table)
                                                .formats.at(0);
          const auto holds = [&](double stream, double branch) {
            const StackScale scale{.stream = stream, .branch = branch, .embedding = TableFactor::table};
            return theory::verdict(certify_at(scale, runs[0]), {}).certified;
          };
          if (std::isnan(f.stream)) {
            CHECK_FALSE(f.reason.empty());
            CHECK_FALSE(holds(f.fitting.stream, f.fitting.branch));
            continue;
          }
          ++certified;
          CHECK(holds(f.stream, f.fitting.branch));
          CHECK((f.stream == 0x1p40 || !holds(2.0 * f.stream, f.fitting.branch)));
          if (std::isnan(f.branch)) continue;
          CHECK(holds(f.stream, f.branch));
          CHECK((f.branch == 0x1p40 || !holds(f.stream, 2.0 * f.branch)));
        }
      }
    }
  }
  CHECK(certified > 15);
}

TEST_CASE("the stream can be scaled if only norms A and the final norm read it, in Peri-LN by gains alone") {
  const std::set<std::string_view> gauges{"pre",   "peri",   "lns",         "depth-scaled", "beam",
                                          "u-mup", "sub-ln", "layer-scale", "parallel",     "muse-spark",
                                          "x0",    "hyper",  "parallel-two"};
  for (const Placement& row : placement_table()) {
    CAPTURE(row.name);
    StackSpec spec = placed(tiny_stack(), row.name);
    spec.model.layers = 4;
    CHECK(!gauge_unsupported(spec.model, TableFactor::table).has_value() == gauges.contains(row.name));
  }
  ModelSpec model = placed(tiny_stack(), "pre").model;
  CHECK_FALSE(gauge_unsupported(model, TableFactor::tied_table));
  model.head.transform = true;
  CHECK(gauge_unsupported(model, TableFactor::tied_table));
  model.final_norm = false;
  CHECK(gauge_unsupported(model, TableFactor::tied_table));
  for (const bool attention : {true, false}) {
    FreeForm form;
    form.attention = std::make_shared<const Placement>(*find_placement(attention ? "none" : "pre"));
    form.mlp = std::make_shared<const Placement>(*find_placement(attention ? "pre" : "none"));
    model = placed(tiny_stack(), "pre").model;
    model.placement = free_placement(form);
    const std::string sublayer = attention ? "sublayer 0" : "sublayer 1";
    CHECK(gauge_unsupported(model, TableFactor::table) == sublayer + " has no norm A");
  }
  model = placed(tiny_stack(), "pre").model;
  model.norm = NormKind::dyt;
  CHECK(gauge_unsupported(model, TableFactor::tied_table));
  for (const char* placement : {"peri", "b-only", "pre"}) {
    const ModelSpec m = placed(tiny_stack(), placement).model;
    CHECK(recipe_of(m).gains_only == (std::string_view(placement) == "peri"));
  }
}

}  // namespace
}  // namespace periscope::testing
