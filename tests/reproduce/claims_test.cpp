#include "experiments/studies/reproduce/reproduce.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/reproduce/made_up_runs.h"
#include "tests/support/doctest.h"

namespace periscope::testing {
namespace {

using reproduce::GroupRuns;
using reproduce::judge_claims;

/// A group with these final losses, one per seed.
GroupRuns with_losses(const std::string& name, const std::vector<double>& losses, double rate = 1.0) {
  return group_of(name, rate, [&](int seed) { return run_with_loss(losses.at(static_cast<std::size_t>(seed))); });
}

/// A group of runs in which the last record of `column` is values(seed).
GroupRuns with_end(const std::string& name, const std::string& column,
                   const std::function<std::vector<double>(int)>& values) {
  return group_of(name, 1.0, [&](int seed) {
    training::TrainingResult run = run_with_loss(3.0);
    run.history.records.rbegin()->second.at(column) = values(seed);
    return run;
  });
}

TEST_CASE("without runs no claim is judged, each names the missing groups, and ids are unique") {
  const std::vector<judge::SignClaim> claims = judge_claims({});
  std::set<std::string> ids;
  for (const judge::SignClaim& claim : claims) {
    INFO(claim.id);
    CHECK(claim.verdict == judge::ClaimVerdict::not_run);
    CHECK(claim.reason.starts_with("no runs of "));
    CHECK(ids.insert(claim.id).second);
  }
  CHECK(claims.size() >= 40);
}

TEST_CASE("the final loss of a run that ended early is ln V") {
  const auto ended = [](int seed) {
    training::TrainingResult run = run_with_loss(3.0 + 0.01 * seed);
    run.history.loss.resize(30);
    return run;
  };
  const std::vector<double> losses{2.5, 2.6, 2.7};
  const auto claims = judge_claims({group_of("pre", 1.0, ended), with_losses("peri", losses)});
  CHECK(claim(claims, "R1d").mean.value == approx(std::log(256.0) - 2.6));
  // Claim R7a uses the group "peri" twice.
  const auto twice =
      judge_claims({with_losses("pre", losses), group_of("peri", 1.0, ended), with_losses("peri, LayerNorm", losses)});
  const std::string& reason = claim(twice, "R7a").reason;
  CHECK(reason.find("ended early") < reason.size());
  CHECK(reason.find("ended early") == reason.rfind("ended early"));
}

TEST_CASE("claims judge the surge of the variance and the growth law over depth") {
  using Law = std::function<double(int)>;
  const auto growing = [](const Law& law, double noise) {
    return [=](int seed) {
      std::vector<double> variance;
      for (int depth = 0; depth < 13; ++depth)
        variance.push_back(law(depth) * (1.0 + noise * ((7 * depth + seed * depth * depth) % 5)));
      return variance;
    };
  };
  const Law exponential = [](int d) { return std::pow(2.0, d); }, line = [](int d) { return 1.0 + d; };
  const auto judged = [&](const Law& law, double noise) {
    return judge_claims({with_end("pre", "variance.x_out", growing(law, noise)),
                         with_end("peri", "variance.x_out", growing(line, 0.02))});
  };
  const auto surge = judged(exponential, 0.01);
  CHECK(claim(surge, "F4a").verdict == judge::ClaimVerdict::holds);
  CHECK(claim(surge, "F4a").mean.value == approx(std::log(std::pow(2.0, 12.0) / 13.0)).epsilon(0.02));
  CHECK(claim(surge, "F4b").verdict == judge::ClaimVerdict::holds);
  CHECK(claim(surge, "F4b").mean.value > 1.0);
  CHECK(claim(judged(line, 0.01), "F4b").verdict == judge::ClaimVerdict::fails);
  // The exponential still fits best, but too badly to be accepted.
  const auto scattered = judged(exponential, 0.15);
  const judge::SignClaim& rough = claim(scattered, "F4b");
  CHECK(rough.verdict != judge::ClaimVerdict::holds);
  CHECK(rough.mean.value < 0.0);
}

TEST_CASE("claim G7d holds if the gradient is flat over depth") {
  const auto falling = [](double factor) {
    return [factor](int seed) { return std::vector<double>{std::pow(factor, 1.0 + 0.01 * seed), 1.0, 1.0 / factor}; };
  };
  const auto claims = judge_claims(
      {with_end("post", "grad_sq.weight.q", falling(0.1)), with_end("peri", "grad_sq.weight.q", falling(0.9))});
  CHECK(claim(claims, "G7d").verdict == judge::ClaimVerdict::holds);
}

TEST_CASE("a claim about more tokens than a proxy run reads can be shown, but not refuted") {
  const auto largest = [](double value) {
    return judge_claims({with_end("pre", "largest", [=](int seed) { return std::vector<double>{value + seed}; })});
  };
  const auto low = largest(40.0);
  const judge::SignClaim& refuted = claim(low, "F9c");
  CHECK(refuted.verdict == judge::ClaimVerdict::not_testable);
  CHECK(refuted.values.front() == approx(std::log(40.0 / 65504.0)));
  CHECK(refuted.reason.find("the source observes the effect within 5e+08") != std::string::npos);
  CHECK(std::isnan(refuted.p));
  CHECK(std::isnan(refuted.holm));
  CHECK(claim(largest(80000.0), "F9c").verdict == judge::ClaimVerdict::holds);
  GroupRuns longer = with_end("pre", "largest", [](int seed) { return std::vector<double>{40.0 + seed}; });
  longer.group.train.steps = 1000000;
  longer.group.train.batch = 64;
  longer.group.spec.input.tokens = 64;
  CHECK(claim(judge_claims({longer}), "F9c").verdict == judge::ClaimVerdict::fails);
}

TEST_CASE("the spread over seeds is compared with twice the spread of the other placement") {
  const auto wide = judge_claims({with_losses("pre", {2.0, 3.0, 4.1}), with_losses("peri", {2.9, 3.0, 3.05})});
  // Squared deviations add up to 2.20667 and 0.011667.
  CHECK(claim(wide, "R9").mean.value == approx((2.20667 - 4.0 * 0.011667) / 3.0).epsilon(1e-4));
  CHECK(claim(wide, "R9").verdict == judge::ClaimVerdict::holds);
  const auto alike = judge_claims({with_losses("pre", {2.0, 3.0, 4.0}), with_losses("peri", {2.0, 3.1, 4.0})});
  CHECK(claim(alike, "R9").mean.value < 0.0);
}

TEST_CASE("two groups are equivalent only within half of the difference between placements") {
  const GroupRuns pre = with_losses("pre", {3.0, 3.1, 3.2}), peri = with_losses("peri", {2.5, 2.6, 2.71});
  const auto same = judge_claims({pre, peri, with_losses("peri, LayerNorm", {2.52, 2.61, 2.7})});
  CHECK(claim(same, "R7a").verdict == judge::ClaimVerdict::holds);
  const auto other = judge_claims({pre, peri, with_losses("peri, LayerNorm", {2.1, 2.2, 2.3})});
  CHECK(claim(other, "R7a").verdict == judge::ClaimVerdict::fails);
  CHECK(claim(same, "R7a").p <= 0.05);
  CHECK(claim(other, "R7a").p >= 0.95);
  const auto noise = judge_claims({with_losses("pre", {3.0, 3.2, 2.81}), with_losses("peri", {3.0, 3.0, 3.0}),
                                   with_losses("peri, LayerNorm", {3.1, 2.8, 3.05})});
  CHECK(claim(noise, "R7a").p == 0.5);
}

TEST_CASE("learning-rate sweeps give the best loss, the shape and the best rate") {
  std::vector<GroupRuns> runs;
  const auto add = [&](const std::string& placement, const std::vector<double>& losses,
                       const std::vector<double>& rates) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const std::string name = rates[i] == 1.0 ? placement : placement + ", rate x " + std::to_string(i);
      runs.push_back(
          with_losses(name,
                      {losses[i], losses[i] + 0.01,
                       losses[i] + 0.03 * static_cast<double>(placement.size()) + 0.002 * static_cast<double>(i)},
                      rates[i]));
    }
  };
  const std::vector<double> rates{4.0, 0.25, 1.0};  // files need not be sorted by rate
  add("post", {3.4, 2.8, 3.0}, rates);              // best at the lowest rate, so the sweep is not U-shaped
  add("pre", {3.0, 3.0, 2.9}, rates);               // symmetric: best at 1
  add("peri", {2.7, 3.0, 2.5}, rates);              // best at an interpolated rate above 1
  const auto claims = judge_claims(runs);
  CHECK(claim(claims, "R3a").verdict == judge::ClaimVerdict::holds);
  CHECK(claim(claims, "R3a").values[0] == approx(0.4));
  CHECK(claim(claims, "R3b").values[0] == approx(0.3));
  CHECK(claim(claims, "R3e").verdict == judge::ClaimVerdict::fails);
  CHECK(claim(claims, "R3f").values[0] == approx(0.1));
  CHECK(claim(claims, "R3g").values[0] == approx(0.2));
  // Slopes are −0.5 and 0.2 per ln 4 at −ln(4)/2 and ln(4)/2, so the interpolated zero is 5/7 of the way between them.
  CHECK(claim(claims, "R3h").values[0] == approx(std::log(4.0) * (5.0 / 7.0 - 0.5) + std::log(4.0)));
  CHECK(claim(claims, "R8").verdict == judge::ClaimVerdict::not_run);
  // The best of 3 rates of Peri-LN is tested at a level corrected for 3 choices.
  const judge::SignClaim& best = claim(claims, "R3a");
  const judge::Test test{.measured = best.mean, .seeds = 3};
  CHECK(best.detectable == approx(test.detectable_at(2.0 * 0.05 / 3.0)).epsilon(1e-9));
}

TEST_CASE("a sweep of two rates has no shape") {
  const auto claims =
      judge_claims({with_losses("post", {3.0, 3.1, 3.2}), with_losses("post, rate x 3", {2.0, 2.1, 2.3}, 3.0)});
  CHECK(claim(claims, "R3e").verdict == judge::ClaimVerdict::not_run);
}

TEST_CASE("every tested claim has a p value corrected by Holm's method") {
  const auto claims = judge_claims({with_losses("pre", {2.9, 3.0, 3.1}), with_losses("peri", {2.5, 2.61, 2.7}),
                                    with_losses("a+c", {2.4, 2.5, 2.61})});
  int larger = 0;
  for (const judge::SignClaim& one : claims) {
    CHECK(std::isnan(one.holm) == (one.verdict == judge::ClaimVerdict::not_run || std::isnan(one.p)));
    larger += one.holm > 2.0 * std::min(one.p, 1.0 - one.p) ? 1 : 0;
  }
  CHECK(larger > 0);
}

}  // namespace
}  // namespace periscope::testing
