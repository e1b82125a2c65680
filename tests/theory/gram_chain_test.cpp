#include "theory/width/gram_chain.h"

#include <fmt/format.h>
#include "tests/support/doctest.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "sim/measure/probe.h"
#include "tests/support/recorded_stack.h"

namespace periscope::theory {
namespace {

constexpr int replicates = 4000;

/// Limit in standard errors (two-sided probability 3.8e-7). This file makes about 8000 comparisons of means and
/// deviations, so a false alarm has a probability below 0.3 %.
constexpr double limit = 5.08;

using Change = std::function<void(StackSpec&)>;

/// 2 layers, width 18, 4 heads of 4 with 2 for keys and values, 5 tokens, SwiGLU of width 24, LeCun initialization.
StackSpec narrow(std::string_view placement, const Change& change = {}) {
  StackSpec spec = testing::placed(testing::tiny_stack(), placement);
  spec.model.width = 18;
  spec.model.head_dim = 4;
  spec.model.mlp_width = 24;
  spec.input.correlation = 0.3;
  if (change) change(spec);
  validate(spec);
  return spec;
}

/// Mean and standard deviation with standard errors; the error of the log deviation uses the fourth moment.
struct Moments {
  double mean, error, log_deviation, log_error;

  explicit Moments(const std::vector<double>& x) {
    const auto n = static_cast<double>(x.size());
    mean = 0.0;
    for (const double v : x) mean += v / n;
    double second = 0.0;
    double fourth = 0.0;
    for (const double v : x) second += std::pow(v - mean, 2) / n;
    for (const double v : x) fourth += std::pow(v - mean, 4) / n;
    error = std::sqrt(second / n);
    log_deviation = 0.5 * std::log(second);
    log_error = std::sqrt((fourth / (second * second) - 1.0) / (4.0 * n));
  }
};

std::vector<double> column(const std::vector<Profile>& all, std::pair<Statistic, CurvePlace> key, std::size_t index) {
  std::vector<double> values;
  for (const Profile& p : all) values.push_back(p.curves.at(key).value.at(index));
  return values;
}

/// Computes one profile per replicate, in parallel.
std::vector<Profile> readings(const std::function<Profile(std::uint64_t)>& reading) {
  std::vector<Profile> all(static_cast<std::size_t>(replicates));
#pragma omp parallel for schedule(dynamic, 16)
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = reading(i);
  return all;
}

/// Describes the means and standard deviations that differ by more than `limit` standard errors. Numbers without spread
/// must agree within 1e-9·(1 + |mean|).
std::vector<std::string> differences(const std::vector<Profile>& a, const std::vector<Profile>& b) {
  std::vector<std::string> found;
  for (const auto& [key, curve] : a.front().curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const Moments x(column(a, key, i));
      const Moments y(column(b, key, i));
      if (std::isnan(x.mean) && std::isnan(y.mean)) continue;  // the cosine is NaN if a token can be 0
      const double scale = 1.0 + std::abs(y.mean);
      const std::string name =
          fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(key.first)], name_of(key.second), i);
      const double mean = std::abs(x.mean - y.mean);
      if (!(mean <= std::max(1e-9 * scale, limit * std::hypot(x.error, y.error)))) {
        found.push_back(fmt::format("mean of {}: {:g} and {:g}", name, x.mean, y.mean));
      }
      if (x.log_deviation < std::log(1e-9 * scale) && y.log_deviation < std::log(1e-9 * scale)) continue;
      const double deviation = std::abs(x.log_deviation - y.log_deviation);
      if (!(deviation <= limit * std::hypot(x.log_error, y.log_error))) {
        found.push_back(
            fmt::format("deviation of {}: {:g} and {:g}", name, std::exp(x.log_deviation), std::exp(y.log_deviation)));
      }
    }
  }
  return found;
}

std::vector<Profile> chain(const StackSpec& spec, const std::vector<int>& ids = {}) {
  return readings([&](std::uint64_t i) { return gram_chain(spec, ids, {.seed = 11, .index = i}); });
}

/// Simulates stacks of dense matrices.
std::vector<Profile> simulated(const StackSpec& spec, const std::vector<int>& ids = {}) {
  const Backend& ops = testing::truth();
  return readings([&](std::uint64_t i) {
    const GeneratedWeights weights(ops, spec, DType::f64, 1000 + i);
    const StackContext context{.ops = ops, .model = spec.model, .weights = weights};
    Probe probe(context);
    const Tensor input =
        ids.empty() ? gaussian_input(ops, spec, DType::f64, 1000 + i) : embedding_forward(context, ids);
    (void)stack_forward(context, input, {.recorders = {&probe}});
    return probe.take().profile;
  });
}

void check_same_law(const std::string& what, const StackSpec& spec, const std::vector<int>& ids = {}) {
  CAPTURE(what);
  std::vector<Profile> predicted = chain(spec, ids);
  if (spec.model.width == 1) {  // a ratio of normal numbers has no mean
    for (Profile& p : predicted) p.curves.erase({Statistic::branch_ratio, Signal::B_out});
  }
  for (const std::string& difference : differences(predicted, simulated(spec, ids))) FAIL_CHECK(difference);
}

TEST_CASE("the finite-width chain has the means and spreads of dense stacks for every placement (T25)") {
  for (const Placement& row : testing::rows_of_t1()) {
    const int layers = row.name == "mix" ? 4 : 2;
    check_same_law(std::string(row.name), narrow(row.name, [&](StackSpec& s) { s.model.layers = layers; }));
  }
  check_same_law("free form", narrow("pre", [](StackSpec& s) {
                   s.model.placement = custom_placement(
                       {.norm_a = true, .norm_b = true, .norm_c = true, .alpha = -0.7, .beta = 1.6, .input_gain = 0.5});
                 }));
}

struct Variant {
  std::vector<const char*> placements;
  const char* what;
  Change change;
};

void check_variants(const std::vector<Variant>& variants) {
  for (const Variant& v : variants) {
    for (const char* placement : v.placements) {
      check_same_law(std::string(v.what) + ", " + placement, narrow(placement, v.change));
    }
  }
}

TEST_CASE("the chain agrees with dense stacks for options of attention, norms, gates and initialization (T25)") {
  check_variants({
      {{"post", "peri", "residual", "b-only"},
       "LayerNorm of few features",
       [](StackSpec& s) {
         s.model.norm = NormKind::layer;
         s.model.width = 6;
         s.model.norm_eps = 0.05;
         s.model.embedding_norm = true;
       }},
      {{"b-only"}, "bidirectional", [](StackSpec& s) { s.model.causal = false; }},
      {{"b-only"}, "no RoPE, sharp", [](StackSpec& s) { s.model.rope = false, s.init.qk_factor = 2.5; }},
      {{"b-only"}, "uniform", [](StackSpec& s) { s.init.qk_factor = 0.0; }},
      {{"b-only"}, "QK-norm per head", [](StackSpec& s) { s.model.qk_norm = QkNorm::head, s.model.norm_eps = 0.1; }},
      {{"b-only"}, "full QK-norm", [](StackSpec& s) { s.model.qk_norm = QkNorm::full, s.model.norm_eps = 0.1; }},
      {{"b-only"},
       "one head",
       [](StackSpec& s) { s.model.heads = s.model.kv_heads = 1, s.model.head_dim = 2, s.model.norm_eps = 0.05; }},
      {{"b-only"}, "one key head", [](StackSpec& s) { s.model.kv_heads = 1; }},
      {{"pre"}, "V-norm", [](StackSpec& s) { s.model.v_norm = true, s.model.norm_eps = 0.1; }},
      {{"pre"}, "inner norms", [](StackSpec& s) { s.model.inner_norm = InnerNorm::both, s.model.norm_eps = 0.1; }},
      {{"pre"},
       "inner norm of few hidden features",
       [](StackSpec& s) { s.model.inner_norm = InnerNorm::down, s.model.mlp_width = 4; }},
      {{"pre"}, "gate per head", [](StackSpec& s) { s.model.attention_gate = AttentionGate::head; }},
      {{"pre"}, "gate per channel", [](StackSpec& s) { s.model.attention_gate = AttentionGate::channel; }},
      {{"pre"},
       "V-norm, inner norms and gates",
       [](StackSpec& s) {
         s.model.v_norm = true;
         s.model.inner_norm = InnerNorm::both;
         s.model.attention_gate = AttentionGate::head;
       }},
      {{"pre"}, "residual scale", [](StackSpec& s) { s.init.residual = *DepthExpression::parse("2/(l+1)"); }},
      {{"pre"}, "Mitchell's rule", [](StackSpec& s) { s.init.scheme = InitScheme::mitchell; }},
      {{"pre", "residual"}, "equal tokens", [](StackSpec& s) { s.input.correlation = 1.0; }},
  });
}

TEST_CASE("the chain agrees with dense stacks for every kind of MLP (T25)") {
  for (std::size_t kind = 0; kind < mlp_kind_names.size(); ++kind) {
    check_same_law(std::string(mlp_kind_names[kind]), narrow("pre", [&](StackSpec& spec) {
                     spec.model.layers = 1;
                     spec.model.mlp = static_cast<MlpKind>(kind);
                     spec.init.scheme = InitScheme::he;
                     spec.init.down_factor = 1.5;
                   }));
  }
}

TEST_CASE("the chain agrees with dense stacks of extreme shapes: more tokens than features, one of each (T25)") {
  const std::vector<const char*> both{"pre", "residual"};
  check_variants({
      {both, "as many tokens as features", [](StackSpec& s) { s.input.tokens = s.model.width = 6; }},
      {both, "more tokens", [](StackSpec& s) { s.input.tokens = 9, s.model.width = 4; }},
      {both, "few more features than tokens", [](StackSpec& s) { s.input.tokens = 5, s.model.width = 8; }},
      {both, "one token", [](StackSpec& s) { s.input.tokens = 1; }},
      // With the default eps, rare tokens (one in 1/eps) would dominate the deviation; 4000 replicates are too few.
      {both, "two features", [](StackSpec& s) { s.model.width = 2, s.model.norm_eps = 0.05; }},
      {both, "one feature", [](StackSpec& s) { s.model.width = 1; }},
      {both, "one hidden feature", [](StackSpec& s) { s.model.mlp_width = 1; }},
      {both, "few hidden features", [](StackSpec& s) { s.model.mlp_width = 3, s.model.mlp = MlpKind::relu; }},
  });
}

TEST_CASE("the chain agrees with dense stacks for token ids and embedding options of checkpoints (T25)") {
  const std::vector<int> ids{3, 1, 3, 0, 3};
  StackSpec spec = narrow("post");
  spec.input.kind = InputKind::tokens;
  spec.input.second_moment = 0.7;
  spec.model.vocab = 4;
  check_same_law("repeated", spec, ids);
  spec = testing::placed(spec, "pre");
  spec.model.causal = false;
  check_same_law("all equal, bidirectional", spec, {2, 2, 2, 2, 2});
  spec = testing::placed(spec, "peri");
  spec.model.causal = true;
  spec.model.embedding = {.scale = 1.7, .width = 5, .positions = 6, .token_types = 2};
  check_same_law("projected table, positions, token type", spec, ids);
  spec.init.embedding_std = 0.3;
  spec.init.position_std = 1.4;
  check_same_law("tables with different standard deviations", spec, ids);
}

TEST_CASE("a chain with wrong head counts, norms, QK-norms or gates is rejected") {
  const auto none = [](StackSpec&) {};
  const auto strong_gates = [](AttentionGate gate) {
    return [gate](StackSpec& s) {
      s.model.attention_gate = gate;
      s.init.scheme = InitScheme::scaled;
      s.init.factor = 16.0;
    };
  };
  const auto with_qk_norm = [](QkNorm qk_norm) {
    return [qk_norm](StackSpec& s) {
      s.model.qk_norm = qk_norm;
      s.model.heads = s.model.kv_heads = 6;
      s.model.head_dim = 1;
      s.model.rope = false;
    };
  };
  struct Row {
    const char* placement;
    Change chain, simulated;
  };
  const std::vector<Row> rows{
      {"none", none, [](StackSpec& s) { s.model.kv_heads = s.model.heads; }},
      {"post", [](StackSpec& s) { s.model.norm = NormKind::layer, s.model.width = 12; },
       [](StackSpec& s) { s.model.width = 12; }},
      {"b-only", with_qk_norm(QkNorm::full), with_qk_norm(QkNorm::head)},
      {"pre", none, [](StackSpec& s) { s.model.v_norm = true; }},
      {"pre", none, [](StackSpec& s) { s.model.attention_gate = AttentionGate::head; }},
      {"pre", strong_gates(AttentionGate::channel), strong_gates(AttentionGate::head)},  // both gates have equal means
      {"pre", none, [](StackSpec& s) { s.model.inner_norm = InnerNorm::both; }},
  };
  for (const Row& row : rows) {
    CAPTURE(&row - rows.data());
    CHECK_FALSE(
        differences(chain(narrow(row.placement, row.chain)), simulated(narrow(row.placement, row.simulated))).empty());
  }
}

TEST_CASE("a replicate depends only on seed and index") {
  const StackSpec spec = narrow("peri");
  const auto top = [&](std::uint64_t seed, std::uint64_t replicate) {
    return gram_chain(spec, {}, {.seed = seed, .index = replicate})
        .find(Statistic::second_moment, Signal::f_out)
        ->value.back();
  };
  CHECK(top(1, 2) == top(1, 2));
  CHECK(top(1, 2) != top(1, 3));
  CHECK(top(1, 2) != top(2, 2));
}

}  // namespace
}  // namespace periscope::theory
