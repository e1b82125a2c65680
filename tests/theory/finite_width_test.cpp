#include "theory/predict/finite_width_chain.h"

#include <cmath>
#include <limits>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/significance.h"
#include "tests/support/threads.h"
#include "tests/theory/same_curves.h"

namespace periscope::theory {
namespace {

StackSpec small(std::string_view placement) {
  StackSpec spec = testing::placed(testing::tiny_stack(), placement);
  spec.input.correlation = 0.3;
  return spec;
}

/// Predicts the infinite-width limit and the finite-width chain.
Prediction at_width(const StackSpec& spec, int replicates, std::uint64_t seed = 3,
                    const std::vector<std::vector<int>>& ids = {}) {
  Prediction p = predict(spec, ids, {.max_samples = 64, .seed = seed});
  predict_at_width(spec, ids, {.replicates = replicates, .seed = seed}, p);
  return p;
}

testing::Estimate cell(const Prediction& p, Statistic statistic, Signal site, std::size_t i) {
  const Curve& c = *p.profile.find(statistic, site);
  return {c.value.at(i), c.standard_error.at(i)};
}

TEST_CASE("predict_at_width has the same bits for 1, 2 and 3 threads") {
  const auto run = [&](int count) {
    const testing::Threads threads(count);
    return at_width(small("peri"), 100);
  };
  const Prediction alone = run(1);
  for (const int count : {2, 3}) {
    const Prediction several = run(count);
    check_same_curves(several.profile, alone.profile);
    check_same_curves(several.spread, alone.spread);
  }
}

TEST_CASE("on_progress receives the finished fraction, and its exceptions propagate") {
  const testing::Threads threads(2);
  const StackSpec spec = small("pre");
  const Prediction limit = predict(spec, {}, {.max_samples = 64});
  std::vector<double> shares;
  Prediction p = limit;
  predict_at_width(spec, {}, {.replicates = 10, .on_progress = [&](double share) { shares.push_back(share); }}, p);
  CHECK(shares.size() == static_cast<std::size_t>(10 * spec.model.sublayers()));
  CHECK(std::ranges::is_sorted(shares));
  CHECK(shares.back() == 1.0);
  struct Enough {};
  const auto stop = [](double share) {
    if (share > 0.5) throw Enough();
  };
  p = limit;
  CHECK_THROWS_AS(predict_at_width(spec, {}, {.replicates = 10, .on_progress = stop}, p), Enough);
}

TEST_CASE("an exception in a replicate propagates: a stack that is too large throws bad_alloc") {
  StackSpec spec = small("pre");
  spec.input.tokens = std::numeric_limits<int>::max();  // the size of a matrix over token pairs overflows
  for (const int count : {1, 2}) {
    const testing::Threads threads(count);
    Prediction p;
    CHECK_THROWS_AS(predict_at_width(spec, {}, {.replicates = 8}, p), std::bad_alloc);
    CHECK_FALSE(p.exact_at_width);
  }
}

TEST_CASE("profile prefers curves of the finite-width chain; limit has all curves of the infinite-width limit") {
  const StackSpec spec = small("pre");
  Prediction limit = predict(spec, {}, {.max_samples = 64, .seed = 3});
  CHECK_FALSE(limit.exact_at_width_for(Statistic::second_moment, Signal::x_out));
  CHECK(limit.limit.curves.empty());
  const Prediction p = at_width(spec, 64);
  CHECK(p.exact_at_width);
  CHECK(p.finite_width_replicates == 64);
  CHECK(p.finite_width_degrees == 63);
  CHECK(p.exact_at_width_for(Statistic::second_moment, Signal::x_out));
  CHECK_FALSE(p.exact_at_width_for(Statistic::kurtosis, Signal::x_out));
  REQUIRE(p.limit.curves.size() == limit.profile.curves.size());
  for (const auto& [key, curve] : limit.profile.curves) {
    testing::check_same_bits("limit", p.limit.curves.at(key).value, curve.value);
    const bool same = p.profile.curves.at(key).value == curve.value;
    CHECK(same != p.exact_at_width_for(key.first, key.second));
  }
  const Curve& spread = *p.spread.find(Statistic::second_moment, Signal::f_out);
  const Curve& mean = *p.profile.find(Statistic::second_moment, Signal::f_out);
  for (std::size_t i = 0; i < spread.value.size(); ++i) {
    CHECK(mean.standard_error[i] == approx(spread.value[i] / 8.0).epsilon(1e-12));
  }
}

TEST_CASE("replicates are independent and divided among sequences; the spread is measured within a sequence") {
  StackSpec spec = small("pre");
  spec.input.kind = InputKind::tokens;
  spec.input.correlation = 0.0;
  const std::vector<int> same{7, 7, 7, 7, 7};
  const std::vector<int> different{0, 1, 2, 3, 4};
  const auto cosine = [&](const std::vector<std::vector<int>>& ids, int replicates) {
    const Prediction p = at_width(spec, replicates, 3, ids);
    return std::pair(cell(p, Statistic::token_cosine, Signal::x_out, 0),
                     p.spread.find(Statistic::token_cosine, Signal::x_out)->value[0]);
  };
  CHECK(cosine({same}, 64).first.mean == approx(1.0).epsilon(1e-12));
  CHECK(cosine({same}, 64).second < 1e-7);
  const auto [mean, spread] = cosine({same, different}, 2000);
  testing::check_consistent("cosine", mean, 0.5);
  const auto [alone, alone_spread] = cosine({different}, 2000);
  CHECK(spread == approx(alone_spread / std::sqrt(2.0)).epsilon(0.1));  // the spread of the other sequence is 0
  const Prediction uneven = at_width(spec, 5, 3, {same, different});
  CHECK(uneven.finite_width_replicates == 6);
  CHECK(uneven.finite_width_degrees == 4);  // 6 replicates minus one mean per sequence
  const Prediction equal = at_width(spec, 6, 3, {different, different});
  std::set<double> tops;
  for (const Profile& p : equal.replicate_profiles) {
    tops.insert(p.curves.at({Statistic::second_moment, Signal::x_out}).value.back());
  }
  CHECK(tops.size() == 6);
}

TEST_CASE("a planted fault changes the limit and the finite-width chain") {
  const auto branches = [](Fault fault) {
    Prediction p = predict(small("pre"), {}, {.max_samples = 8, .fault = fault});
    predict_at_width(small("pre"), {}, {.replicates = 8, .fault = fault}, p);
    return p.profile.find(Statistic::second_moment, Signal::B_out)->value;
  };
  const std::vector<double> branch = branches(Fault::none);
  const std::vector<double> wrong = branches(Fault::beta0);
  CHECK(wrong[1] == branch[1]);
  CHECK(wrong[2] == approx(1.05 * branch[2]).epsilon(1e-12));
}

TEST_CASE("the number of replicates decreases with their cost, to at least 8") {
  StackSpec spec = small("pre");
  CHECK(replicates_for(spec, 16) == 256);
  CHECK(replicates_for(spec, 1) == 32);
  spec.model = {.layers = 24, .width = 256, .heads = 8, .kv_heads = 8, .head_dim = 32, .mlp_width = 1024};
  spec.input.tokens = 128;
  CHECK(replicates_for(spec, 16) == 64);
  spec.model.width = 8192;
  spec.model.mlp_width = 32768;
  spec.input.tokens = 4096;
  CHECK(replicates_for(spec, 16) == 8);
}

TEST_CASE("an operation budget limits replicates; if it is too small, the limit is used and the reason given") {
  StackSpec spec = small("pre");
  spec.model.width = spec.model.heads * spec.model.head_dim;
  spec.input.tokens = 1024;
  const double each = chain_operations(spec);
  const double cheap = 4e11;
  CHECK(replicates_for(spec, 1, 1, 1.0) == (cheap / each < 8 ? 0 : replicates_for(spec, 1, 1, cheap)));
  const double expensive = std::max(cheap, 8 * each);
  const int all = replicates_for(spec, 100);
  REQUIRE(all * each > 2 * expensive);
  CHECK(replicates_for(spec, 100, 1, all * each) == all);
  const int half = replicates_for(spec, 100, 1, 0.5 * all * each);
  CHECK(half <= all / 2);
  CHECK(half >= all / 2 - 1);
  CHECK_MESSAGE(replicates_for(spec, 100, 7, 0.5 * all * each) % 7 == 0, "a multiple of the sequences");

  spec = small("pre");
  const Prediction limit = predict(spec, {}, {.max_samples = 64});
  Prediction p = limit;
  predict_at_width(spec, {}, {.replicates = 8, .operations = 1.0}, p);
  CHECK_MESSAGE(p.finite_width_replicates == 8, "a given number of replicates takes precedence");
  CHECK(p.left_out.empty());
  spec.input.tokens = 2048;
  p = limit;
  predict_at_width(spec, {}, {.seeds = 8, .operations = 1.0}, p);
  CHECK_FALSE(p.exact_at_width);
  CHECK(p.profile.curves.size() == limit.profile.curves.size());
  CHECK(p.left_out.find("at infinite width") != std::string::npos);
}

TEST_CASE("a replicate that overflows makes the chain unsupported; an earlier reason is preserved") {
  StackSpec spec = small("none");
  spec.model.layers = 3;
  spec.model.mlp = MlpKind::swiglu;
  spec.init.scheme = InitScheme::scaled;
  spec.init.factor = 1e25;
  Prediction p;
  p.profile.curves[{Statistic::second_moment, Signal::x_out}] = {};
  predict_at_width(spec, {}, {.replicates = 8}, p);
  CHECK(p.unsupported.find("is not finite at depth") != std::string::npos);
  CHECK(p.profile.curves.empty());
  CHECK_FALSE(p.exact_at_width);
  const std::string reason = p.unsupported;
  predict_at_width(small("pre"), {}, {.replicates = 8}, p);
  CHECK(p.unsupported == reason);
  CHECK(p.profile.curves.empty());
}

}  // namespace
}  // namespace periscope::theory
