#include "experiments/studies/power/power.h"

#include "experiments/engine/cache/cache.h"
#include "experiments/engine/settings/sha256.h"
#include "tests/support/doctest.h"
#include "tests/support/set_placements.h"
#include "tests/support/temporary_folder.h"

/// The power study: rows, configuration hash, cache and allowed rejections.
namespace periscope::testing::power_study {
namespace {

/// Two small configurations, without the finite-width chain, which is slow.
power::PowerList tiny_list(const TemporaryFolder& folder) {
  power::PowerList list;
  list.file = "list.toml";
  for (const char* name : {"first", "second"}) {
    list.configs.push_back({.name = name, .file = "none", .settings = {}, .ladder = false, .master_seeds = true});
    stacks::LadderConfig& config = list.configs.back().config;
    config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
    config.base.init.scheme = InitScheme::lecun;
    config.base.init.qk_factor = 0.0;
    config.base.input.tokens = 3;
    testing::set_placements(config, {"pre", "post"});
    config.run.seeds = 5;
    config.run.seed = list.configs.size() == 1 ? 40 : 1000;
    config.run.out = folder.path();
    config.run.dtype = DType::f64;
    config.theory.finite_width = false;
  }
  return list;
}

}  // namespace

TEST_CASE("power: a compared stack reports its test nearest to rejection") {
  judge::StackVerdict a;
  a.verdict = judge::Verdict::inconclusive;
  a.reason = "weak";
  a.tests = {{.index = 4, .measured = {9.0, 1.0}},
             {.index = 2, .measured = {5.0, 0.3}, .predicted = {3.0, 0.4}, .tolerated_bias = 0.7, .critical = 3.25}};
  a.worst = 1;
  StackSpec spec;
  spec.model.placement = *find_placement("post");
  spec.input.kind = InputKind::tokens;
  const power::ComparedStack c = power::compared(spec, a);
  CHECK(c.placement == "post");
  CHECK(c.input == "tokens");
  CHECK(c.verdict == judge::Verdict::inconclusive);
  CHECK(c.reason == "weak");
  CHECK(c.nearest == "post tokens: second_moment x_out[2]");
  CHECK(c.excess == approx((2.0 - 0.7) / 0.5));
  CHECK(c.critical == 3.25);
  CHECK(c.margin() == approx(2.6 / 3.25));
}

TEST_CASE("power: the hash covers all configurations and theories of the list") {
  const TemporaryFolder folder;
  power::PowerList list = tiny_list(folder);
  list.theories.push_back({.name = "strong",
                           .settings = {},
                           .config = "first",
                           .placements = {"pre"},
                           .inputs = {"gaussian"},
                           .overridden = list.configs.front().config});
  const std::string hash = config_sha256(power::resolved(list));
  const auto changes = [&](const auto& edit) {
    power::PowerList other = list;
    edit(other);
    return config_sha256(power::resolved(other)) != hash;
  };
  CHECK_FALSE(changes([](power::PowerList&) {}));
  CHECK(changes([](power::PowerList& r) { r.configs[1].name = "third"; }));
  CHECK(changes([](power::PowerList& r) { r.configs[1].ladder = true; }));
  CHECK(changes([](power::PowerList& r) { r.theories[0].name = "weak"; }));
  CHECK(changes([](power::PowerList& r) { r.theories[0].config = "second"; }));
  CHECK(changes([](power::PowerList& r) { r.theories[0].placements = {"post"}; }));
  CHECK(changes([](power::PowerList& r) { r.theories[0].inputs.clear(); }));
  CHECK(changes([](power::PowerList& r) { r.configs[1].config.variants[0].model.width = 16; }));
  CHECK(changes([](power::PowerList& r) { r.theories[0].overridden.variants[0].init.down_factor = 2.0; }));
}

TEST_CASE("power: cached rows are not mixed up between configurations") {
  const TemporaryFolder folder;
  const power::PowerList list = tiny_list(folder);
  stacks::Progress alone;
  const power::PowerResult expected = power::run(list, alone);
  REQUIRE(expected.rows.size() == 2);
  REQUIRE(expected.rows[0].stacks[0].excess != expected.rows[1].stacks[0].excess);
  for (int time = 0; time < 2; ++time) {  // computed, then restored from the cache
    CAPTURE(time);
    const cache::Cache tasks(folder.path(), "power", power::resolved(list));
    stacks::Progress progress;
    progress.use_cache(&tasks);
    CHECK_FALSE(progress.is_resumable());
    const power::PowerResult result = power::run(list, progress);
    CHECK(progress.is_resumable());
    REQUIRE(result.rows.size() == 2);
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(result.rows[r].config == expected.rows[r].config);
      for (std::size_t s = 0; s < 2; ++s) {
        CHECK(result.rows[r].stacks[s].placement == expected.rows[r].stacks[s].placement);
        CHECK(result.rows[r].stacks[s].excess == expected.rows[r].stacks[s].excess);
      }
    }
  }
}

TEST_CASE("power: allowed_rejections matches binomial tails") {
  // Probabilities of at least k rejections. 64 runs at 1 %: 0.39 % (k = 4), 2.6 % (k = 3). 10 runs at 5 %: 0.10 %
  // (k = 4), 1.2 % (k = 3). 20 runs at 1 %: 0.10 % (k = 3), 1.7 % (k = 2).
  CHECK(judge::allowed_rejections(64, 0.01) == 3);
  CHECK(judge::allowed_rejections(10, 0.05) == 3);
  CHECK(judge::allowed_rejections(20, 0.01) == 2);
}

}  // namespace periscope::testing::power_study
