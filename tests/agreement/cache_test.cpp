#include "experiments/engine/cache/cache.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/stacks.h"
#include "sim/backends.h"
#include "sim/files/output_file.h"
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

/// Counts computed tasks, cached tasks and printed lines.
class CountedTasks : public stacks::Progress {
 public:
  explicit CountedTasks(const Cache* tasks) { use_cache(tasks); }
  void say(const std::string& /*lines*/) override { ++said; }
  int computed = 0;
  int restored = 0;
  int said = 0;

 private:
  void on_report(Report change) override {
    if (change == Report::computed) ++computed;
    if (change == Report::cached) ++restored;
  }
};

/// Requests a stop in the second stack, recognised by the placement in the label.
class StopInSecondStack : public stacks::Progress {
 public:
  [[nodiscard]] bool stop_requested() const override { return second_; }

 private:
  void on_report(Report change) override {
    if (change != Report::computed) return;
    const std::string placement = label_.substr(0, label_.find_first_of(" :"));
    if (first_.empty()) first_ = placement;
    if (placement != first_) second_ = true;
  }

  std::string first_;
  std::atomic<bool> second_ = false;
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

}  // namespace

TEST_CASE("encoding preserves every bit; truncated bytes are rejected") {
  const std::vector<double> values{0.0,
                                   -0.0,
                                   1.0 / 3.0,
                                   5e-324,
                                   -std::numeric_limits<double>::infinity(),
                                   std::nan("7"),
                                   -std::nan(""),
                                   std::numeric_limits<double>::max()};
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

TEST_CASE("a cached task is found for the same settings and any number of seeds only") {
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
  write_file(tasks.folder() + "/b", good);  // file of another task
  CHECK_THROWS_AS((void)tasks.get("b"), InputError);
}

TEST_CASE("seeds are restored from overlapping cache files; the others are computed once, in order") {
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
  run_of(40, 5, 5);
  run_of(50, 3, 0);
  run_of(38, 20, 8);  // 40 … 44 and 50 … 52
  run_of(41, 12, 12);
  run_of(57, 1, 1);
  write_file(tasks.folder() + "/" + stacks::seeds_task("seed", spec, {}) + ".40-44", "damaged");
  run_of(39, 7, 2, true);  // 39, 45
  run_of(39, 7, 7);
}

TEST_CASE("cached readings equal computed ones, for every placement") {
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
  CHECK(stacks::seeds_task("reading", spec, run) == task);
  CHECK(stacks::seeds_task("paths", spec, run) != task);
  const auto differs = [&](const auto& change) {
    StackSpec other_spec = spec;
    config::RunOptions other_run = run;
    change(other_spec, other_run);
    return stacks::seeds_task("reading", other_spec, other_run) != task;
  };
  CHECK(differs([](StackSpec& s, config::RunOptions&) { s.model.norm_eps *= 2.0; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.dtype = r.dtype == DType::f64 ? DType::f32 : DType::f64; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.device = "reference"; }));
  CHECK(differs([](StackSpec&, config::RunOptions& r) { r.backward = !r.backward; }));
  CHECK_FALSE(differs([](StackSpec&, config::RunOptions& r) { r.threads = 7; }));
}

TEST_CASE("a stop request ends a run with Stopped") {
  stacks::LadderConfig config;
  config.base.model = {.layers = 1, .width = 16, .heads = 2, .kv_heads = 2, .head_dim = 8, .mlp_width = 16};
  config.base.init.scheme = InitScheme::lecun;
  config.base.input.tokens = 3;
  testing::set_placements(config, {"pre", "peri"});
  config.widths = {16, 32, 48, 64};
  config.width_seeds = 12;
  stacks::Progress progress;
  CHECK(stacks::run_ladder(config, progress).stacks.size() == 2);
  StopInSecondStack stopping;
  CHECK_THROWS_AS(stacks::run_ladder(config, stopping), stacks::Stopped);
}

}  // namespace periscope
