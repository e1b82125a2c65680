#include <cmath>
#include <limits>

#include "experiments/engine/run/token_ids.h"
#include "experiments/studies/gradients/crossover.h"
#include "experiments/studies/gradients/decompose.h"
#include "experiments/studies/gradients/depth.h"
#include "experiments/studies/gradients/identity_path.h"
#include "experiments/studies/gradients/score_path.h"
#include "tests/agreement/gradient_runs.h"

namespace periscope::testing::gradient_runs {

TEST_CASE("gradients depth: exponents of all depths and the late ones, their allowances, limit and claim") {
  GradientConfig config = tiny({"pre", "post"}, 0.0);
  config.layers = {1, 2, 3, 5};
  stacks::Progress progress;
  const DepthResult result = gradient_depth(config, progress);
  REQUIRE(result.theory_layers == std::vector<double>{1, 2, 3, 5, 10, 20, 40, 80});
  for (std::size_t c = 0; c < 2; ++c) {
    const DepthLaw& law = result.laws[c];
    Rows rows(seeds);
    Curve predicted;
    std::vector<double> bias;
    std::vector<double> x;
    int replicates = 0;
    for (const double layers : result.theory_layers) {
      StackSpec spec = config.stacks()[c];
      spec.model.layers = static_cast<int>(layers);
      const theory::Prediction p =
          predict_gradients(config, spec, spec, progress);  // uniform attention: nothing is sampled
      const Curve down = log_norms(p.profile, Weight::down);
      predicted.value.push_back(down.value.back());
      predicted.standard_error.push_back(down.standard_error.back());
      if (layers > 5) continue;
      replicates = p.replicates;
      const Rows all = log_norms(read(config, spec), Weight::down);
      for (std::size_t s = 0; s < rows.size(); ++s) rows[s].push_back(all[s].back());
      x.push_back(std::log(layers));
      // The last MLP lies behind 2(L − 1) sublayers.
      bias.push_back(width_allowance(spec, p, static_cast<std::size_t>(2 * (layers - 1))) +
                     variance_of(column(all, all.front().size() - 1)));
    }
    CHECK(law.gradient.rows() == rows);
    CHECK(law.predicted.value == predicted.value);
    CHECK(law.predicted.standard_error == predicted.standard_error);
    check_test("exponent", law.exponent, sum_by_hand(rows, predicted, slope_of(x), bias), replicates, 4, 0.25);
    check_test("late exponent", law.late_exponent, sum_by_hand(rows, predicted, slope_of(x, 1), bias), replicates, 4,
               0.25);
    const double limit = (predicted.value[7] - predicted.value[6]) / std::log(80.0 / 40.0);
    CHECK_NEAR("limit exponent", law.limit, limit);
    CHECK(std::abs(limit - (predicted.value[6] - predicted.value[5]) / std::log(2.0)) > 1e-6);  // not that before
    REQUIRE(law.claim);
    CHECK(law.claim->claimed == (c == 0 ? -0.5 : 0.0));
    const double level = 1.0 - std::sqrt(1.0 - error_rate);
    const double reach = critical_by_hand(seeds - 1.0, level) * law.late_exponent.measured.error;
    const double off = law.late_exponent.measured.value - law.claim->claimed;
    const double correction = law.late_exponent.predicted.value - limit;
    const bool plain = std::abs(off) <= reach && std::abs(correction) <= reach;
    const bool holds = plain || std::abs(off - correction) <= reach;
    const bool weak = detectable_by_hand(0.0, law.late_exponent.measured.error, seeds - 1.0, 1.0, level) > 0.25;
    CHECK(law.claim->verdict == (!holds  ? judge::ClaimVerdict::fails
                                 : weak  ? judge::ClaimVerdict::not_shown
                                 : plain ? judge::ClaimVerdict::holds
                                         : judge::ClaimVerdict::holds_with_condition));
  }
}

TEST_CASE("gradients score-path: shares and logarithms, with and without the score path") {
  GradientConfig config = tiny({"b-only", "pre"}, 1.0);
  config.base.model.layers = 2;
  config.base.model.width = 24;
  config.base.model.mlp_width = 24;
  config.base.model.heads = config.base.model.kv_heads = 6;
  stacks::Progress progress;
  const std::vector<ScorePath> paths = score_path(config, progress).stacks;
  bool resolved = false;
  for (std::size_t c = 0; c < 2; ++c) {
    const ScorePath& path = paths[c];
    const StackSpec spec = config.stacks()[c];
    const std::vector<Profile> profiles = read(config, spec);
    const theory::Prediction all = predict_gradients(config, spec, spec, progress);
    const theory::Prediction values =
        predict_gradients(config, spec, spec, progress, theory::GradientPaths::without_scores);
    // Where a logarithm's variance over seeds is 2 or more allowances say nothing.
    double widest = 0.0;
    for (std::size_t i = 0; i < 5; ++i) {
      std::vector<double> logs;
      for (const Profile& p : profiles) logs.push_back(p.find(Statistic::log_grad_sq, Signal::x_out)->value[i]);
      widest = std::max(widest, variance_of(logs));
    }
    resolved = resolved || widest < 2.0;
    const double withdrawn = widest < 2.0 ? 0.0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < 5; ++i) {
      std::vector<double> logs;
      for (const Profile& p : profiles) logs.push_back(p.find(Statistic::log_grad_sq, Signal::x_out)->value[i]);
      const double allowance = 2.0 * width_allowance(spec, all, i) + 0.5 * variance_of(logs) + withdrawn;
      for (const auto& [tests_of, p] : {std::pair(&path.with, &all), std::pair(&path.without, &values)}) {
        const Curve& t = *p->profile.find(Statistic::log_grad_sq, Signal::x_out);
        const judge::Test expected{.measured = {mean_of(logs), error_of(logs)},
                                   .predicted = {t.value[i], t.standard_error[i]},
                                   .tolerated_bias = allowance};
        const bool whole = tests_of == &path.with;
        check_test(whole ? "with" : "without", (*tests_of)[i], expected, p->replicates, whole ? 14 : 10, 0.5);
        const Curve& shown = whole ? path.log_with : path.log_without;
        CHECK(shown.value[i] == t.value[i]);
      }
      CHECK_NEAR("log_grad_sq", path.log_measured.value[i], mean_of(logs));
    }
    for (std::size_t l = 0; l < 2; ++l) {
      std::vector<double> shares;
      for (const Profile& p : profiles) shares.push_back(p.find(Statistic::score_share, Signal::A_out)->value[2 * l]);
      const Curve& t = *all.profile.find(Statistic::score_share, Signal::A_out);
      const double share = t.value[2 * l];
      const double slope = share * (1.0 - share);
      const judge::Test expected{.measured = {mean_of(shares), error_of(shares)},
                                 .predicted = {share, t.standard_error[2 * l]},
                                 .tolerated_bias = slope * 2.0 * width_allowance(spec, all, 2 * l, true) +
                                                   variance_of(shares) / (2.0 * slope) + 1e-6 + withdrawn};
      check_test("share", path.shares[l], expected, all.replicates, 14, 0.1);
    }
  }
  CHECK(resolved);
}

TEST_CASE("gradients identity-path: shares of the skip path from every seed's decomposition") {
  const GradientConfig config = tiny({"pre", "post"}, 0.0);
  stacks::Progress progress;
  const std::vector<IdentityPath> paths = identity_path(config, progress).stacks;
  const auto backend = make_backend("cpu");
  for (std::size_t c = 0; c < 2; ++c) {
    const IdentityPath& path = paths[c];
    const StackSpec spec = config.stacks()[c];
    Rows share, log_skip, branch;
    double error = 0.0;
    for (std::uint64_t seed = 11; seed < 11 + seeds; ++seed) {
      const GeneratedWeights weights(*backend, spec, DType::f64, seed);
      const StackContext context{.ops = *backend, .model = spec.model, .weights = weights};
      const GradientPathSizes sizes = decompose_gradient(context, stacks::stack_input(context, spec, DType::f64, seed),
                                                         stacks::label_ids(spec, seed));
      share.emplace_back();
      log_skip.emplace_back();
      branch.emplace_back();
      for (std::size_t i = 0; i < 7; ++i) {
        share.back().push_back(sizes.skip[i] / (sizes.skip[i] + sizes.rest[i]));
        log_skip.back().push_back(0.5 * std::log(sizes.skip[i] / sizes.total[6]));
      }
      for (std::size_t i = 0; i < 6; ++i) branch.back().push_back(std::sqrt(sizes.branch[i] / sizes.total[6]));
      const std::size_t s = share.size() - 1;
      CHECK(path.cosine.rows()[s] == sizes.cosine);
      CHECK(path.branch_cosine.rows()[s] == sizes.branch_cosine);
      error = std::max(error, sizes.error);
    }
    CHECK(path.share.rows() == share);
    CHECK(path.log_skip.rows() == log_skip);
    CHECK(path.branch.rows() == branch);
    CHECK(path.error == error);
    // Two sides, six products a sublayer, the longest sum that of the MLP's width.
    CHECK(path.error_bound == 2.0 * 6.0 * 6.0 * 12.0 * 0x1p-52);
    const theory::Prediction all = predict_gradients(config, spec, spec, progress);
    const theory::Prediction skip = predict_gradients(config, spec, spec, progress, theory::GradientPaths::skip_only);
    const Curve whole = log_norms(all.profile, Signal::x_out);
    const Curve alone = log_norms(skip.profile, Signal::x_out);
    REQUIRE(path.shares.size() == 6);
    for (std::size_t i = 0; i < 7; ++i) {
      const double p = std::exp(2.0 * (alone.value[i] - whole.value[i]));
      const double p_error = 2.0 * p * std::hypot(alone.standard_error[i], whole.standard_error[i]);
      CHECK_NEAR("share predicted", path.share_predicted.value[i], p);
      CHECK_NEAR("share predicted stderr", path.share_predicted.standard_error[i], p_error);
      CHECK_NEAR("log skip predicted", path.log_skip_predicted.value[i], alone.value[i] - alone.value[6]);
      CHECK_NEAR("log skip predicted stderr", path.log_skip_predicted.standard_error[i], alone.standard_error[i]);
      if (i == 6) continue;
      const std::vector<double> measured = column(share, i);
      const double slope = p * (1.0 - p);
      const judge::Test expected{
          .measured = {mean_of(measured), error_of(measured)},
          .predicted = {p, p_error},
          .tolerated_bias = slope * 2.0 * width_allowance(spec, all, i) + variance_of(measured) / (2.0 * slope)};
      check_test("share", path.shares[i], expected, all.replicates, 12, 0.1);
    }
  }
}

TEST_CASE("gradients crossover: ratios to Pre-LN, T14's law, and where the ratio is one") {
  GradientConfig config = tiny({"peri", "pre", "post"}, 0.0);
  config.base.model.width = 32;  // wide enough that the ratio of every seed passes 1
  config.base.model.mlp_width = 48;
  config.base.model.heads = config.base.model.kv_heads = 8;
  config.down_factors = {0.1, 1.0, 4.0};
  stacks::Progress progress;
  const CrossoverResult result = gradient_crossover(config, progress);
  REQUIRE(result.placements.size() == 2);
  struct Sweep {
    Rows gradient = Rows(seeds), rms = Rows(seeds), gain = Rows(seeds);
    Curve predicted, rms_predicted;
    std::vector<double> allowance;
    std::vector<int> replicates;
  };
  std::vector<Sweep> sweeps;
  for (StackSpec spec : config.stacks()) {
    Sweep& sweep = sweeps.emplace_back();
    const std::string_view name = spec.model.placement.name;
    for (const double factor : config.down_factors) {
      spec.init.down_factor = factor;
      const std::vector<Profile> profiles = read(config, spec);
      for (std::size_t s = 0; s < profiles.size(); ++s) {
        const auto last = [&](Signal at) { return profiles[s].find(Statistic::second_moment, at)->value.back(); };
        sweep.gradient[s].push_back(log_norms(std::vector<Profile>{profiles[s]}, Weight::down)[0].back());
        sweep.rms[s].push_back(std::log(std::sqrt(last(Signal::f_out))));
        // γ = 1 over the rms of what every norm on the way reads: the final norm; Peri's of the branch, Post's of the
        // sum.
        double gain = spec.model.final_norm ? 1.0 / std::sqrt(last(Signal::x_out)) : 1.0;
        if (name == "peri") gain /= std::sqrt(last(Signal::f_out));
        if (name == "post") gain /= std::sqrt(last(Signal::x_in) + last(Signal::f_out));
        sweep.gain[s].push_back(std::log(gain));
      }
      const theory::Prediction p = predict_gradients(config, spec, spec, progress);
      const Curve down = log_norms(p.profile, Weight::down);
      const Curve& a = *p.profile.find(Statistic::second_moment, Signal::f_out);
      sweep.predicted.value.push_back(down.value.back());
      sweep.predicted.standard_error.push_back(down.standard_error.back());
      sweep.rms_predicted.value.push_back(std::log(std::sqrt(a.value.back())));
      sweep.rms_predicted.standard_error.push_back(0.5 * a.standard_error.back() / a.value.back());
      sweep.allowance.push_back(width_allowance(spec, p, 4));  // before the last of three layers
      sweep.replicates.push_back(p.replicates);
    }
  }
  const std::size_t tests = 6 + (result.placements[0].crosses ? 1 : 0) + (result.placements[1].crosses ? 1 : 0);
  for (const std::size_t k : {0U, 1U}) {
    const Sweep& own = sweeps[k == 0 ? 0 : 2];
    const Sweep& pre = sweeps[1];
    const Crossover& c = result.placements[k];
    Rows ratios;
    Rows laws;
    for (std::size_t s = 0; s < seeds; ++s) {
      ratios.emplace_back();
      laws.emplace_back();
      for (std::size_t i = 0; i < 3; ++i) {
        ratios.back().push_back(own.gradient[s][i] - pre.gradient[s][i]);
        laws.back().push_back(own.gain[s][i] - pre.gain[s][i]);
        CHECK_NEAR("log_rms_a", c.log_rms_a.rows()[s][i], own.rms[s][i]);
        CHECK_NEAR("log_ratio", c.log_ratio.rows()[s][i], ratios[s][i]);
        CHECK_NEAR("log_law", c.log_law.rows()[s][i], laws[s][i]);
      }
    }
    std::vector<double> predicted;
    std::vector<double> errors;
    for (std::size_t i = 0; i < 3; ++i) {
      predicted.push_back(own.predicted.value[i] - pre.predicted.value[i]);
      errors.push_back(std::hypot(own.predicted.standard_error[i], pre.predicted.standard_error[i]));
      CHECK_NEAR("log_rms_a predicted", c.rms_a_predicted.value[i], own.rms_predicted.value[i]);
      CHECK_NEAR("log_rms_a predicted stderr", c.rms_a_predicted.standard_error[i],
                 own.rms_predicted.standard_error[i]);
      const judge::Test expected{.measured = {mean_of(column(ratios, i)), error_of(column(ratios, i))},
                                 .predicted = {predicted[i], errors[i]},
                                 .tolerated_bias = own.allowance[i] + pre.allowance[i]};
      check_test("ratio", c.ratios[i], expected, own.replicates[i], tests, 0.25);
    }
    if (!c.crosses) continue;
    // Between the factors where the predicted ratio changes its sign.
    const std::size_t i = predicted[0] * predicted[1] < 0.0 ? 0 : 1;
    const auto crossing = [&](const std::vector<double>& x, const std::vector<double>& y) {
      const std::size_t at = y[0] * y[1] < 0.0 ? 0 : 1;
      return x[at] - y[at] * (x[at + 1] - x[at]) / (y[at + 1] - y[at]);
    };
    std::vector<double> measured;
    for (std::size_t s = 0; s < seeds; ++s) {
      REQUIRE(ratios[s].front() * ratios[s].back() < 0.0);
      measured.push_back(crossing(own.rms[s], ratios[s]));
    }
    const std::vector<double>& x = own.rms_predicted.value;
    const double slope = std::abs((predicted[i + 1] - predicted[i]) / (x[i + 1] - x[i]));
    const judge::Test expected{.measured = {mean_of(measured), error_of(measured)},
                               .predicted = {crossing(x, predicted), errors[i] / slope},
                               .tolerated_bias = (own.allowance[i] + pre.allowance[i]) / slope};
    check_test("crossing", c.crossing, expected, own.replicates[i], tests, 0.25);
  }
  CHECK(result.placements[0].crosses);  // Peri-LN's gradient is smaller where the MLP's output is large
}

}  // namespace periscope::testing::gradient_runs
