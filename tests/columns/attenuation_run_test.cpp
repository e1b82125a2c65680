#include "experiments/studies/gradients/attenuation.h"
#include "tests/columns/gradient_runs.h"

namespace periscope::testing::gradient_runs {

TEST_CASE("gradients attenuation: rates per layer towards the input, their allowances and claims") {
  GradientConfig config = tiny({"post", "pre"}, 0.0);
  config.qk_factors = {0.0, 0.6};
  stacks::Progress progress;
  const std::vector<Attenuation> cases = gradient_attenuation(config, progress).cases;
  REQUIRE(cases.size() == 4);
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const Attenuation& a = cases[c];
    StackSpec spec = config.stacks()[c % 2];
    spec.init.qk_factor = c < 2 ? 0.0 : 0.6;
    CHECK(a.spec.init.qk_factor == spec.init.qk_factor);
    const std::vector<Profile> profiles = read(config, spec);
    const theory::Prediction p = predict_gradients(config, spec, spec, progress);
    const auto check = [&](const std::string& what, const Rows& rows, const Curve& predicted,
                           const judge::SeedRows& found, const Curve& found_predicted, const judge::Finding& rate) {
      CHECK(found.rows() == rows);
      CHECK(found_predicted.value == predicted.value);
      CHECK(found_predicted.standard_error == predicted.standard_error);
      std::vector<double> x;
      std::vector<double> bias;
      for (std::size_t i = 0; i < rows.front().size(); ++i) {
        x.push_back(-static_cast<double>(i));  // layer i ends, and layer i's MLP lies, at depth 2i
        bias.push_back(width_allowance(spec, p, 2 * i) + variance_of(column(rows, i)));
      }
      check_finding(what, rate, sum_by_hand(rows, predicted, slope_of(x), bias), p.replicates, 8,
                    -0.25 * std::log(2.0 / 3.0));
    };
    check("stream", log_norms(profiles, Signal::x_out, 2), log_norms(p.profile, Signal::x_out, 2), a.stream,
          a.stream_predicted, a.stream_rate);
    check("down", log_norms(profiles, Weight::down), log_norms(p.profile, Weight::down), a.down, a.down_predicted,
          a.down_rate);
    const double claimed = c % 2 == 0 ? 0.5 * std::log(2.0 / 3.0) : 0.0;
    const double level = 1.0 - std::pow(1.0 - error_rate, 1.0 / 8.0);
    for (const auto& judged : {std::pair(&a.stream_claim, &a.stream_rate), std::pair(&a.down_claim, &a.down_rate)}) {
      const auto& claim = judged.first;
      const auto& rate = judged.second;
      CHECK(claim->id == (c % 2 == 0 ? "G10" : "G9"));
      CHECK_NEAR("claimed", claim->claimed, claimed);
      const double limit = critical_by_hand(seeds - 1.0, level) * rate->measured.error;
      CHECK(claim->verdict == (std::abs(rate->measured.value - claimed) <= limit ? judge::ClaimVerdict::holds
                                                                                 : judge::ClaimVerdict::fails));
    }
  }
}

TEST_CASE("gradients attenuation: a rate that theory refuses to predict is measured") {
  GradientConfig config = tiny({"pre"}, 1.0);
  config.base.model.heads = config.base.model.kv_heads = 4;
  config.base.model.head_dim = 2;
  config.base.model.qk_norm = QkNorm::head;
  config.base.model.rope = false;
  config.qk_factors = {1.0};
  stacks::Progress progress;
  const Attenuation a = gradient_attenuation(config, progress).cases.at(0);
  CHECK(a.refusal.find("QK-norm over 2 features") != std::string::npos);
  const std::vector<Profile> profiles = read(config, config.stacks()[0]);
  const auto check = [](const Rows& rows, const std::vector<double>& x, const judge::Finding& rate) {
    const std::vector<double> nothing(x.size(), 0.0);
    const judge::Estimate slope = sum_by_hand(rows, {nothing, nothing}, slope_of(x), nothing).measured;
    CHECK_NEAR("measured", rate.measured.value, slope.value);
    CHECK_NEAR("stderr", rate.measured.error, slope.error);
    CHECK(std::isnan(rate.predicted.value));
    CHECK(rate.verdict == judge::Verdict::not_checked);
  };
  check(log_norms(profiles, Signal::x_out, 2), {0.0, -1.0, -2.0, -3.0}, a.stream_rate);
  check(log_norms(profiles, Weight::down), {0.0, -1.0, -2.0}, a.down_rate);
}

}  // namespace periscope::testing::gradient_runs
