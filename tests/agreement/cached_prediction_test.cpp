#include <set>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/studies/first_steps/prediction.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "tests/support/set_placements.h"
#include "tests/support/temporary_folder.h"
#include "tests/theory/xiong.h"

namespace periscope {
namespace {

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

/// Counts computed and cached predictions.
class Counting : public stacks::Progress {
 public:
  explicit Counting(const cache::Cache* tasks) { use_cache(tasks); }
  int computed = 0;
  int restored = 0;

 private:
  void on_report(Report change) override {
    if (label_.find(": theory") == std::string::npos) return;
    if (change == Report::computed) ++computed;
    if (change == Report::cached) ++restored;
  }
};

}  // namespace

TEST_CASE("a resumed run restores all predictions, bit for bit") {
  const testing::TemporaryFolder folder;
  const config::Config config = small_config();
  const cache::Cache tasks(folder.path(), "test", config::resolved(config));
  Counting progress(&tasks);
  const std::vector<stacks::StackResult> first = stacks::compare(config, "test", progress);
  CHECK(progress.computed == 2 * 4);
  CHECK(progress.restored == 0);
  Counting resumed(&tasks);
  const std::vector<stacks::StackResult> again = stacks::compare(config, "test", resumed);
  CHECK(resumed.computed == 0);
  CHECK(resumed.restored == 2 * 4);
  REQUIRE(again.size() == first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(cache::encode(first[i].prediction) == cache::encode(again[i].prediction));
  }
  // Another precision is another prediction.
  config::Config other = config;
  other.theory.tolerance = 0.05;
  Counting other_progress(&tasks);
  (void)stacks::compare(other, "test", other_progress);
  CHECK(other_progress.restored == 0);
}

TEST_CASE("the cache key of a prediction covers everything that it depends on") {
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
  const cache::Cache tasks(folder.path(), "test", config::resolved(config));
  const auto predicted = [&](int restored) {
    Counting progress(&tasks);
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
  }
  config.run.seed += 1;
  (void)predicted(0);
}

TEST_CASE("a precision given explicitly changes the configuration hash") {
  config::Config by_default = small_config();
  by_default.theory = {};
  config::Config asked = by_default;
  asked.theory.tolerance = by_default.theory.wanted_tolerance();
  CHECK(by_default.theory.wanted_tolerance() == asked.theory.wanted_tolerance());
  CHECK(config::config_sha256(config::resolved(by_default)) != config::config_sha256(config::resolved(asked)));
  CHECK_FALSE(by_default.theory.precision_was_given());
  CHECK(asked.theory.precision_was_given());
}

}  // namespace periscope
