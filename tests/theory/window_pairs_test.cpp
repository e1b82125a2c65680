#include <map>
#include <set>
#include <stdexcept>

#include "tests/support/doctest.h"
#include "theory/passes/backward.h"
#include "theory/predict/pattern_level.h"
#include "theory/predict/predict.h"

namespace periscope::testing {
namespace {

using theory::pairs_of_windows;
using theory::ReplicateInputs;
using Windows = std::vector<std::vector<int>>;

/// Windows of one token each: 0, 1, 2 …
Windows numbered(int count) {
  Windows windows;
  for (int w = 0; w < count; ++w) windows.push_back({w});
  return windows;
}

TEST_CASE("all pairs of windows are used; if there are too many, windows are used about equally often") {
  for (const int count : {2, 3, 4, 5, 8, 11}) {
    CAPTURE(count);
    const ReplicateInputs pairs = pairs_of_windows(numbered(count), numbered(count), 64);
    std::set<std::set<int>> found;
    for (const auto& pair : pairs.ids) found.insert({pair.begin(), pair.end()});
    const auto all = static_cast<std::size_t>(count * (count - 1) / 2);
    CHECK(found.size() == all);
    CHECK(found.count({0}) == 0);
    CHECK(pairs.ids.size() == all);
    CHECK(pairs.population == all);
    CHECK(pairs.labels == pairs.ids);
    CHECK(pairs.sequences.count == 2);
    CHECK(pairs.sequences.batch == count);
  }
  for (const int count : {12, 16, 64, 100}) {
    CAPTURE(count);
    const ReplicateInputs pairs = pairs_of_windows(numbered(count), {}, 64);
    CHECK(pairs.ids.size() == 64);
    CHECK(pairs.labels.empty());
    CHECK(pairs.population == static_cast<std::size_t>(count * (count - 1) / 2));
    std::map<int, int> uses;
    std::set<std::set<int>> found;
    for (const auto& pair : pairs.ids) {
      found.insert({pair.begin(), pair.end()});
      for (const int window : pair) ++uses[window];
    }
    CHECK(found.size() == 64);
    const double each = 128.0 / count;
    for (int w = 0; w < count; ++w) CHECK(std::abs(uses[w] - each) <= 2.0);
  }
  const ReplicateInputs one = pairs_of_windows({{7, 8}}, {{8, 9}}, 64);
  CHECK(one.ids == Windows{{7, 8}});
  CHECK(one.labels == Windows{{8, 9}});
  CHECK(one.sequences.count == 1);
  CHECK(one.sequences.batch == 1);
}

TEST_CASE("windows that do not form one batch throw") {
  const std::vector<std::pair<Windows, Windows>> wrong{{{}, {}},
                                                       {{{}}, {}},
                                                       {{{1, 2}, {1}}, {}},
                                                       {{{1}, {2}}, {{1}}},
                                                       {{{1}, {2}}, {{1}, {1, 2}}},
                                                       {{{1}, {2}}, {{1}, {-1}}}};
  for (const auto& [ids, labels] : wrong) {
    CHECK_THROWS_AS((void)pairs_of_windows(ids, labels, 64), std::invalid_argument);
  }
}

StackSpec three_tokens(bool causal) {
  StackSpec spec;
  spec.model.layers = 2;
  spec.model.width = spec.model.mlp_width = 16;
  spec.model.heads = spec.model.kv_heads = 1;
  spec.model.head_dim = 16;
  spec.model.vocab = 8;
  spec.model.causal = causal;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = 3;
  spec.init.std = 1e-6;  // patterns and probabilities are uniform to rounding, so nothing is sampled
  return spec;
}

constexpr std::array exact{Weight::v, Weight::o, Weight::gate, Weight::up, Weight::down};

/// Predicts gradients (T11) of a whole batch in one replicate.
Profile whole(const StackSpec& spec, const Windows& ids, const Windows& labels) {
  theory::ForwardReplicate chain;
  std::vector<int> all;
  for (std::size_t w = 0; w < ids.size(); ++w) {
    chain.ids.insert(chain.ids.end(), ids[w].begin(), ids[w].end());
    all.insert(all.end(), labels[w].begin(), labels[w].end());
  }
  const auto windows = static_cast<int>(ids.size());
  chain.sequences = {.count = windows, .batch = windows};
  theory::ForwardTrace trace;
  Profile profile = theory::forward_profile(spec, chain, &trace);
  theory::backward_profile(spec, chain, trace, {all}, profile);
  return profile;
}

TEST_CASE("pairs of windows give the gradients of the whole batch; single windows do not") {
  const Windows ids{{1, 2, 3}, {1, 4, 2}, {5, 1, 2}, {0, 0, 6}};
  const Windows labels{{2, 3, 4}, {4, 2, 3}, {1, 2, 2}, {0, 6, 1}};
  for (const bool causal : {true, false}) {
    CAPTURE(causal);
    const StackSpec spec = three_tokens(causal);
    const Profile expected = whole(spec, ids, labels);
    theory::PredictionOptions options{.max_samples = 64};
    const Profile found = theory::predict_batch(spec, ids, labels, options).profile;
    options.labels = labels;
    const Profile apart = theory::predict(spec, ids, options).profile;
    for (const Weight weight : exact) {
      for (std::size_t l = 0; l < 2; ++l) {
        INFO(name_of(weight), " ", l);
        const double value = expected.find(Statistic::grad_sq, weight)->value[l];
        CHECK(found.find(Statistic::grad_sq, weight)->value[l] / value == approx(1.0).epsilon(1e-5));
        CHECK(apart.find(Statistic::grad_sq, weight)->value[l] > 1.5 * value);
      }
    }
    for (const Statistic same : {Statistic::second_moment, Statistic::token_cosine}) {
      const std::vector<double>& q = found.find(same, Signal::x_out)->value;
      for (std::size_t i = 0; i < q.size(); ++i) {
        CHECK(q[i] == approx(apart.find(same, Signal::x_out)->value[i]).epsilon(1e-6));
      }
    }
    const auto stream = [](const Profile& p) { return p.find(Statistic::grad_sq, Signal::x_out)->value; };
    for (std::size_t i = 0; i < stream(found).size(); ++i) {
      CHECK(stream(found)[i] / stream(expected)[i] == approx(1.0).epsilon(1e-5));
      CHECK(16.0 * stream(found)[i] / stream(apart)[i] == approx(1.0).epsilon(1e-5));  // 4²: mean of 4 windows
    }
    CHECK(found.find(Statistic::maximum, Signal::x_out) == nullptr);
  }
}

}  // namespace
}  // namespace periscope::testing
