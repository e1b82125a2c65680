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

/// Limit in standard errors, 3.8e-7 two-sided. This file makes about 8000 comparisons (means and deviations), so a
/// false alarm has a probability below 0.3 %.
constexpr double limit = 5.08;

/// 2 layers, width 18, 4 heads of 4 with 2 for keys and values, 5 tokens, SwiGLU of width 24, LeCun's variances.
StackSpec narrow(std::string_view placement, const std::function<void(StackSpec&)>& change = {}) {
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

/// One profile per replicate, in parallel.
std::vector<Profile> readings(const std::function<Profile(int)>& reading) {
  std::vector<Profile> all(static_cast<std::size_t>(replicates));
#pragma omp parallel for schedule(dynamic, 16)
  for (int i = 0; i < replicates; ++i) all[static_cast<std::size_t>(i)] = reading(i);
  return all;
}

/// Describes the means and standard deviations that differ by more than `limit` standard errors. Numbers without spread
/// are compared to 1e-9.
std::vector<std::string> differences(const std::vector<Profile>& a, const std::vector<Profile>& b) {
  std::vector<std::string> found;
  for (const auto& [key, curve] : a.front().curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const Moments x(column(a, key, i));
      const Moments y(column(b, key, i));
      if (std::isnan(x.mean) && std::isnan(y.mean)) continue;  // cosine of a token that can be 0
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

std::vector<Profile> chain(const StackSpec& spec, const std::vector<int>& ids = {}, Fault fault = Fault::none) {
  return readings([&](int i) {
    return gram_chain(spec, ids, {.seed = 11, .index = static_cast<std::uint64_t>(i), .fault = fault});
  });
}

/// Simulated stacks of dense matrices.
std::vector<Profile> simulated(const StackSpec& spec, const std::vector<int>& ids = {}) {
  const Backend& ops = testing::truth();
  return readings([&](int i) {
    const auto seed = static_cast<std::uint64_t>(1000 + i);
    const GeneratedWeights weights(ops, spec, DType::f64, seed);
    const StackContext context{.ops = ops, .model = spec.model, .weights = weights};
    Probe probe(context);
    const Tensor input = ids.empty() ? gaussian_input(ops, spec, DType::f64, seed) : embedding_forward(context, ids);
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

TEST_CASE("T25: means and spreads of dense stacks, for every placement") {
  for (const Placement& row : testing::rows_of_t1()) {
    const bool mix = row.name == "mix";  // needs four layers
    check_same_law(std::string(row.name), narrow(row.name, [&](StackSpec& spec) {
                     if (mix) spec.model.layers = 4;
                   }));
  }
  StackSpec free_form = narrow("pre");
  free_form.model.placement =
      custom_placement({.norm_a = true, .norm_b = true, .norm_c = true, .alpha = -0.7, .beta = 1.6, .input_gain = 0.5});
  check_same_law("free form", free_form);
}

TEST_CASE("T25: LayerNorm with few features") {
  for (const char* placement : {"post", "peri", "residual", "b-only"}) {
    check_same_law(placement, narrow(placement, [](StackSpec& spec) {
                     spec.model.norm = NormKind::layer;
                     spec.model.width = 6;
                     spec.model.norm_eps = 0.05;
                     spec.model.embedding_norm = true;
                   }));
  }
}

struct Variant {
  const char* placement;
  const char* what;
  std::function<void(StackSpec&)> change;
};

TEST_CASE("T25: options of attention, norms and gates inside modules, and initialisations") {
  for (const Variant& row : {
           Variant{"b-only", "bidirectional", [](StackSpec& s) { s.model.causal = false; }},
           {"b-only", "no RoPE, sharp", [](StackSpec& s) { s.model.rope = false, s.init.qk_factor = 2.5; }},
           {"b-only", "uniform", [](StackSpec& s) { s.init.qk_factor = 0.0; }},
           {"b-only", "QK-norm per head", [](StackSpec& s) { s.model.qk_norm = QkNorm::head, s.model.norm_eps = 0.1; }},
           {"b-only", "QK-norm over all heads",
            [](StackSpec& s) { s.model.qk_norm = QkNorm::full, s.model.norm_eps = 0.1; }},
           {"b-only", "one head", [](StackSpec& s) { s.model.heads = s.model.kv_heads = 1, s.model.head_dim = 2; }},
           {"b-only", "one key head", [](StackSpec& s) { s.model.kv_heads = 1; }},
           {"pre", "V-norm", [](StackSpec& s) { s.model.v_norm = true, s.model.norm_eps = 0.1; }},
           {"pre", "inner norms", [](StackSpec& s) { s.model.inner_norm = InnerNorm::both, s.model.norm_eps = 0.1; }},
           {"pre", "inner norm of few hidden features",
            [](StackSpec& s) { s.model.inner_norm = InnerNorm::down, s.model.mlp_width = 4; }},
           {"pre", "gate per head", [](StackSpec& s) { s.model.attention_gate = AttentionGate::head; }},
           {"pre", "gate per channel", [](StackSpec& s) { s.model.attention_gate = AttentionGate::channel; }},
           {"pre", "V-norm, inner norms and gates",
            [](StackSpec& s) {
              s.model.v_norm = true;
              s.model.inner_norm = InnerNorm::both;
              s.model.attention_gate = AttentionGate::head;
            }},
           {"pre", "residual scale 2/(l+1)",
            [](StackSpec& s) { s.init.residual = *DepthExpression::parse("2/(l+1)"); }},
           {"pre", "Mitchell's rule", [](StackSpec& s) { s.init.scheme = InitScheme::mitchell; }},
           {"pre", "equal tokens", [](StackSpec& s) { s.input.correlation = 1.0; }},
           {"residual", "equal tokens", [](StackSpec& s) { s.input.correlation = 1.0; }},
       }) {
    check_same_law(row.what, narrow(row.placement, row.change));
  }
}

TEST_CASE("T25: every kind of MLP") {
  for (std::size_t kind = 0; kind < mlp_kind_names.size(); ++kind) {
    check_same_law(std::string(mlp_kind_names[kind]), narrow("pre", [&](StackSpec& spec) {
                     spec.model.layers = 1;
                     spec.model.mlp = static_cast<MlpKind>(kind);
                     spec.init.scheme = InitScheme::he;
                     spec.init.down_factor = 1.5;
                   }));
  }
}

TEST_CASE("T25: shapes: more tokens than features, few features, one of each") {
  const std::vector<std::pair<std::string, std::function<void(StackSpec&)>>> shapes{
      {"as many tokens as features", [](StackSpec& s) { s.input.tokens = s.model.width = 6; }},
      {"more tokens", [](StackSpec& s) { s.input.tokens = 9, s.model.width = 4; }},
      {"few directions left", [](StackSpec& s) { s.input.tokens = 5, s.model.width = 8; }},
      {"one token", [](StackSpec& s) { s.input.tokens = 1; }},
      // With the default eps one token in 1/eps dominates the deviation, which 4000 replicates do not estimate.
      {"two features", [](StackSpec& s) { s.model.width = 2, s.model.norm_eps = 0.05; }},
      {"one feature", [](StackSpec& s) { s.model.width = 1; }},
      {"one hidden feature", [](StackSpec& s) { s.model.mlp_width = 1; }},
      {"few hidden features", [](StackSpec& s) { s.model.mlp_width = 3, s.model.mlp = MlpKind::relu; }},
  };
  for (const auto& [what, change] : shapes) {
    check_same_law(what, narrow("pre", change));
    check_same_law(what + ", two streams", narrow("residual", change));
  }
}

TEST_CASE("T25: token ids, repeated ones too, and embedding options of checkpoints") {
  const std::vector<int> ids{3, 1, 3, 0, 3};
  const auto tokens = [](StackSpec& spec) {
    spec.input.kind = InputKind::tokens;
    spec.model.vocab = 4;
    spec.input.second_moment = 0.7;
  };
  check_same_law("repeated", narrow("post", tokens), ids);
  check_same_law("all equal, bidirectional",
                 narrow("pre",
                        [&](StackSpec& spec) {
                          tokens(spec);
                          spec.model.causal = false;
                        }),
                 {2, 2, 2, 2, 2});
  const auto bert = [&](StackSpec& spec) {
    tokens(spec);
    spec.model.embedding = {.scale = 1.7, .width = 5, .positions = 6, .token_types = 2};
  };
  check_same_law("projected table, positions, token type", narrow("peri", bert), ids);
  const auto own_stds = [&](StackSpec& spec) {
    bert(spec);
    spec.init.embedding_std = 0.3;
    spec.init.position_std = 1.4;
  };
  check_same_law("tables of unlike standard deviations", narrow("peri", own_stds), ids);
}

TEST_CASE("wrong head counts, norms and QK-norms of the chain are detected") {
  const auto detected = [](const StackSpec& spec, const std::function<void(StackSpec&)>& fault) {
    StackSpec wrong = spec;
    fault(wrong);
    return !differences(chain(spec), simulated(wrong)).empty();
  };
  CHECK(detected(narrow("none"), [](StackSpec& s) { s.model.kv_heads = s.model.heads; }));
  CHECK(detected(narrow("post", [](StackSpec& s) { s.model.norm = NormKind::layer, s.model.width = 12; }),
                 [](StackSpec& s) { s.model.norm = NormKind::rms; }));
  CHECK(detected(narrow("b-only",
                        [](StackSpec& s) {
                          s.model.qk_norm = QkNorm::full;
                          s.model.heads = s.model.kv_heads = 6;
                          s.model.head_dim = 1;
                          s.model.rope = false;
                        }),
                 [](StackSpec& s) { s.model.qk_norm = QkNorm::head; }));
}

TEST_CASE("a chain without V-norm, inner norms or gates is detected") {
  const StackSpec normed = narrow("pre", [](StackSpec& s) { s.model.v_norm = true; });
  CHECK_FALSE(differences(chain(narrow("pre")), simulated(normed)).empty());
  const StackSpec gated = narrow("pre", [](StackSpec& s) { s.model.attention_gate = AttentionGate::head; });
  CHECK_FALSE(differences(chain(narrow("pre")), simulated(gated)).empty());
  StackSpec per_head = gated;
  per_head.init.scheme = InitScheme::scaled;
  per_head.init.factor = 16.0;
  StackSpec per_channel = per_head;  // same mean, different fluctuations
  per_channel.model.attention_gate = AttentionGate::channel;
  CHECK_FALSE(differences(chain(per_channel), simulated(per_head)).empty());
  const StackSpec inner = narrow("pre", [](StackSpec& s) { s.model.inner_norm = InnerNorm::both; });
  CHECK_FALSE(differences(chain(narrow("pre")), simulated(inner)).empty());
}

TEST_CASE("a replicate depends on seed and index only") {
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
