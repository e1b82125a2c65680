#include "experiments/engine/cache/cache.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/studies/first_steps/prediction.h"
#include "sim/backends.h"
#include "sim/files/output_file.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/set_placements.h"
#include "tests/support/temporary_folder.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;
using cache::Cache;

config::Resolved resolved_with(int value, int seeds = 1) {
  return {.printed = {}, .hashed = Json{{"value", value}, {"run", {{"seed", 0}, {"seeds", seeds}}}}};
}

/// Counts calls to `say`, and computed and cached tasks whose label contains `filter`.
class CountedTasks : public stacks::Progress {
 public:
  explicit CountedTasks(const Cache* tasks, std::string filter = "") : filter_(std::move(filter)) { use_cache(tasks); }
  void say(const std::string& /*lines*/) override { ++said; }
  int computed = 0;
  int restored = 0;
  int said = 0;

 private:
  void on_report(Report change) override {
    if (label_.find(filter_) == std::string::npos) return;
    if (change == Report::computed) ++computed;
    if (change == Report::cached) ++restored;
  }

  std::string filter_;
};

struct Inner {
  double number = 0.0;
  std::string text;
};
auto parts(Inner& x) { return std::tie(x.number, x.text); }
struct Outer {
  std::map<std::pair<Statistic, Signal>, std::vector<Inner>> inner;
  bool flag = false;
  int whole = 0;
};
auto parts(Outer& x) { return std::tie(x.inner, x.flag, x.whole); }

config::Config small_config() {
  config::Config config;
  config.base = testing::tiny_stack();
  testing::set_placements(config, {"pre", "peri"});
  config.inputs = {InputKind::gaussian, InputKind::tokens};
  config.run.backward = true;
  config.run.seeds = 4;
  config.theory.replicates = 8;
  config.theory.tolerance = 0.1;
  config.theory.gradient_tolerance = 1.0;
  return config;
}

}  // namespace

TEST_CASE("encoding preserves every bit; truncated bytes are rejected") {
  using Limits = std::numeric_limits<double>;
  const std::vector<double> values{0.0, -0.0, 1.0 / 3.0, 5e-324, -Limits::infinity(), std::nan("7"), Limits::max()};
  const auto back = cache::decode<std::vector<double>>(cache::encode(values));
  REQUIRE(back.size() == values.size());
  CHECK(std::memcmp(back.data(), values.data(), values.size() * sizeof(double)) == 0);
  const Outer outer{.inner = {{{Statistic::mean, Signal::A_out}, {{1.5, "a"}, {2.5, {}}}}}, .flag = true, .whole = -3};
  const std::string bytes = cache::encode(outer);
  const auto again = cache::decode<Outer>(bytes);
  CHECK(cache::encode(again) == bytes);
  CHECK(again.inner.at({Statistic::mean, Signal::A_out}).at(1).number == 2.5);
  CHECK(again.whole == -3);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_THROWS_AS((void)cache::decode<Outer>(bytes.substr(0, length)), InputError);
  }
  CHECK_THROWS_AS((void)cache::decode<Outer>(bytes + "x"), InputError);
  CHECK_THROWS_AS((void)cache::decode<std::vector<double>>(std::string(8, '\x7f')), InputError);
}

TEST_CASE("a cached task is found only with the same settings; the number of seeds may differ") {
  const testing::TemporaryFolder folder;
  const Cache tasks(folder.path(), "test", resolved_with(1));
  CHECK_FALSE(tasks.get("a"));
  tasks.put("a", "value");
  tasks.put("b", "");
  CHECK(tasks.get("a") == "value");
  CHECK(tasks.get("b") == "");
  CHECK(Cache(folder.path(), "test", resolved_with(1, 7)).get("a") == "value");
  CHECK_FALSE(Cache(folder.path(), "test", resolved_with(2)).get("a"));
  CHECK_FALSE(Cache(folder.path(), "other", resolved_with(1)).get("a"));
  for (const char* section : {"run", "formats", "first_steps", "train", "ladder", "gradients"}) {
    config::Resolved other = resolved_with(1);
    other.hashed[section]["key"] = 3;
    CHECK_FALSE(Cache(folder.path(), "test", other).get("a"));
  }
  tasks.remove_all_but("b");
  CHECK_FALSE(tasks.get("a"));
  CHECK(tasks.get("b") == "");
  tasks.remove_all_but("");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a damaged cache file is an error") {
  const testing::TemporaryFolder folder;
  const Cache tasks(folder.path(), "test", resolved_with(1));
  tasks.put("a", "some value");
  const std::string path = tasks.folder() + "/a";
  std::ifstream stream(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(stream), {}};
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    for (const std::string& bad : {flipped, good.substr(0, i)}) {
      write_file(path, bad);
      CHECK_THROWS_AS((void)tasks.get("a"), InputError);
    }
  }
  write_file(tasks.folder() + "/b", good);  // the cache file of task "a"
  CHECK_THROWS_AS((void)tasks.get("b"), InputError);
}

TEST_CASE("seeds in overlapping cache files are restored; other seeds are computed once, in order") {
  const testing::TemporaryFolder folder;
  const Cache tasks(folder.path(), "test", resolved_with(1));
  const StackSpec spec = testing::tiny_stack();
  const auto run_of = [&](std::uint64_t first, int seeds, int restored, bool damaged = false) {
    config::RunOptions run;
    run.seed = first;
    CountedTasks progress(&tasks);
    std::vector<std::uint64_t> used, expected;
    stacks::over_cached_seeds(
        "seed", spec, run, seeds, "label", progress, [](std::uint64_t seed) { return 3 * seed; },
        [&](std::uint64_t value) { used.push_back(value); });
    for (int i = 0; i < seeds; ++i) expected.push_back(3 * (first + static_cast<std::uint64_t>(i)));
    CHECK(used == expected);
    CHECK(progress.restored == restored);
    CHECK(progress.computed == seeds - restored);
    CHECK(progress.said == (damaged ? 1 : 0));
  };
  run_of(40, 5, 0);
  run_of(50, 3, 0);
  run_of(38, 20, 8);  // of the seeds 38 … 57, 40 … 44 and 50 … 52 are cached
  run_of(41, 12, 12);
  run_of(57, 1, 1);
  write_file(tasks.folder() + "/" + stacks::seeds_task("seed", spec, {}) + ".40-44", "damaged");
  run_of(39, 7, 2, true);  // of the seeds 39 … 45, only 39 and 45 are cached
  run_of(39, 7, 7);
}

TEST_CASE("cached readings equal computed readings for every placement") {
  for (const char* placement : {"pre", "peri", "post", "residual", "mix", "none"}) {
    for (const bool backward : {false, true}) {
      CAPTURE(std::string(placement));
      CAPTURE(backward);
      const testing::TemporaryFolder folder;
      StackSpec spec;
      spec.model = {.layers = 2, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
      spec.model.mlp = backward ? MlpKind::swiglu : MlpKind::relu;
      spec.model.placement = *find_placement(placement);
      spec.input.tokens = 3;
      const bool diverges = !spec.model.has_norms();
      if (diverges) spec.init.std = 1e15;
      config::RunOptions run;
      run.dtype = DType::f32;
      run.backward = backward;
      const auto backend = make_backend("cpu");
      const Cache tasks(folder.path(), "test", resolved_with(1));
      std::vector<Reading> readings[2];
      for (const bool again : {false, true}) {
        CountedTasks progress(&tasks);
        stacks::measure_stack(*backend, spec, run, 3, "", progress,
                              [&](const Reading& r) { readings[again ? 1 : 0].push_back(r); });
        CHECK(progress.restored == (again ? 3 : 0));
      }
      CHECK(cache::encode(readings[0]) == cache::encode(readings[1]));
      CHECK((readings[1].front().diverged_at >= 0) == diverges);
    }
  }
}

TEST_CASE("the cache key of seeds covers everything that a result depends on") {
  StackSpec spec;
  config::RunOptions run;
  const std::string task = stacks::seeds_task("reading", spec, run);
  CHECK(stacks::seeds_task("paths", spec, run) != task);
  const auto differs = [&](const auto& change) {
    StackSpec other_spec = spec;
    config::RunOptions other_run = run;
    change(other_spec, other_run);
    return stacks::seeds_task("reading", other_spec, other_run) != task;
  };
  CHECK(differs([](StackSpec& s, config::RunOptions&) { s.model.norm_eps *= 2.0; }));
  CHECK(differs([](StackSpec& s, config::RunOptions&) { s.init.qk_factor *= 2.0; }));
  CHECK(differs([](StackSpec& s, config::RunOptions&) { s.input.kind = InputKind::tokens; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.dtype = r.dtype == DType::f64 ? DType::f32 : DType::f64; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.device = "reference"; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.backward = !r.backward; }));
  CHECK_FALSE(differs([](StackSpec&, config::RunOptions& r) { r.threads = 7; }));
}

TEST_CASE("a resumed run restores all predictions, bit for bit") {
  const testing::TemporaryFolder folder;
  const config::Config config = small_config();
  const Cache tasks(folder.path(), "test", config::resolved(config));
  CountedTasks progress(&tasks, ": theory");
  const std::vector<stacks::StackResult> first = stacks::compare(config, "test", progress);
  CHECK(progress.computed == 2 * 4);
  CHECK(progress.restored == 0);
  CountedTasks resumed(&tasks, ": theory");
  const std::vector<stacks::StackResult> again = stacks::compare(config, "test", resumed);
  CHECK(resumed.computed == 0);
  CHECK(resumed.restored == 2 * 4);
  REQUIRE(again.size() == first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(cache::encode(first[i].prediction) == cache::encode(again[i].prediction));
  }
}

TEST_CASE("the cache key of a prediction covers everything that the prediction depends on") {
  const config::Config config = small_config();
  const StackSpec spec = config.stacks().front();
  StackSpec wider = spec;
  wider.init.std *= 2.0;
  std::vector<config::Config> others(5, config);
  others[0].theory.tolerance = 0.05;
  others[1].theory.fault = theory::Fault::beta0;
  others[2].run.seed += 1;
  others[3].run.seeds += 1;
  others[4].run.backward = false;
  std::set<std::string> keys{
      stacks::prediction_task("limit", spec, spec, config), stacks::prediction_task("chain", spec, spec, config),
      stacks::prediction_task("limit", wider, spec, config), stacks::prediction_task("limit", spec, wider, config)};
  for (const config::Config& other : others) keys.insert(stacks::prediction_task("limit", spec, spec, other));
  CHECK(keys.size() == 4 + others.size());
  CHECK(keys.contains(stacks::prediction_task("limit", spec, spec, config)));
}

TEST_CASE("predictions of first steps are cached per seed") {
  const testing::TemporaryFolder folder;
  first_steps::FirstStepsConfig config;
  config.base = theory::small_stack("peri");
  config.train.steps = 3;
  config.neurons = 16;
  config.replicates = 2;
  const theory::FirstStepsInput input = theory::small_input({1e-3, 3e-3, 2e-3});
  const Cache tasks(folder.path(), "test", config::resolved(config));
  const auto predicted = [&](int restored) {
    CountedTasks progress(&tasks, ": theory");
    theory::FirstSteps prediction = first_steps::predict(config, config.base, input, "test", progress);
    CHECK(progress.restored == restored);
    return prediction;
  };
  const theory::FirstSteps first = predicted(0);
  const theory::FirstSteps again = predicted(1);
  CHECK(again.holds_until == first.holds_until);
  REQUIRE(first.steps.size() == 4);
  REQUIRE(again.steps.size() == 4);
  for (std::size_t s = 0; s < first.steps.size(); ++s) {
    CHECK(cache::encode(again.steps[s].second_moment) == cache::encode(first.steps[s].second_moment));
    CHECK(cache::encode(again.steps[s].update) == cache::encode(first.steps[s].update));
    CHECK(again.steps[s].least_correlated == first.steps[s].least_correlated);
    CHECK(again.steps[s].neglected == first.steps[s].neglected);
    CHECK(again.steps[s].gain_drift == first.steps[s].gain_drift);
  }
  config.run.seed += 1;
  (void)predicted(0);
}

}  // namespace periscope
