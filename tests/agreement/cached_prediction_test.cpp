#include "experiments/engine/run/cached_prediction.h"

#include <cmath>
#include <cstring>
#include <set>

#include "experiments/engine/run/cell_journal.h"
#include "experiments/engine/run/confront.h"
#include "experiments/studies/first_steps/prediction.h"
#include "sim/base/error.h"
#include "tests/first_steps/small_case.h"
#include "tests/support/doctest.h"
#include "tests/support/temporary_folder.h"
#include "tests/theory/xiong.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

config::Config small_config() {
  config::Config config;
  config.base = testing::tiny_stack();
  config.placements = {*find_placement("pre"), *find_placement("peri")};
  config.inputs = {InputKind::gaussian, InputKind::tokens};
  config.run.backward = true;
  config.run.seeds = 4;
  config.theory.replicates = 8;
  config.theory.tolerance = 0.1;
  config.theory.gradient_tolerance = 1.0;
  return config;
}

/// Counts how often theory says how far it is, and what was kept.
class Counting : public stacks::Progress {
 public:
  explicit Counting(stacks::CellJournal* journal) : Progress(journal) {}
  void next(stacks::WorkKind kind, double /*operations*/, const std::string& /*label*/) override {
    of_theory_ = kind != stacks::WorkKind::measurement;
  }
  void part(double /*share*/) override { parts += of_theory_ ? 1 : 0; }
  void kept(const std::string& /*label*/, int count) override { kept_predictions += count; }
  int parts = 0;
  int kept_predictions = 0;

 private:
  bool of_theory_ = false;
};

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), sizeof(double) * a.size()) == 0);
}

template <class Curves>
void check_same(const Curves& a, const Curves& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [key, curve] : a) {
    REQUIRE(b.contains(key));
    CHECK(same_bits(curve.value, b.at(key).value));
    CHECK(same_bits(curve.standard_error, b.at(key).standard_error));
  }
}

void check_same(const Profile& a, const Profile& b) {
  check_same(a.curves, b.curves);
  check_same(a.weight_curves, b.weight_curves);
  CHECK(same_bits(a.angular_distance, b.angular_distance));
}

void check_same(const theory::Prediction& a, const theory::Prediction& b) {
  check_same(a.profile, b.profile);
  check_same(a.limit, b.limit);
  check_same(a.spread, b.spread);
  REQUIRE(a.draws.size() == b.draws.size());
  for (std::size_t i = 0; i < a.draws.size(); ++i) check_same(a.draws[i], b.draws[i]);
  CHECK(same_bits(a.finite_width, b.finite_width));
  CHECK(a.refusal == b.refusal);
  CHECK(a.gradient_refusal == b.gradient_refusal);
  CHECK(a.left_out == b.left_out);
  CHECK(a.replicates == b.replicates);
  CHECK(a.samples == b.samples);
  CHECK(a.backward_samples == b.backward_samples);
  CHECK(a.tolerance == b.tolerance);
  CHECK(a.gradient_tolerance == b.gradient_tolerance);
  CHECK(a.exact_at_width == b.exact_at_width);
  CHECK(a.finite_width_replicates == b.finite_width_replicates);
  CHECK(a.finite_width_degrees == b.finite_width_degrees);
  CHECK(a.replicates_given == b.replicates_given);
  CHECK(a.draws_per_sequence == b.draws_per_sequence);
}

}  // namespace

TEST_CASE("predictions are in the journal: a run that goes on computes none again, and has the same bits") {
  const testing::TemporaryFolder folder;
  const config::Config config = small_config();
  const config::Resolved resolved = config::resolved(config);
  std::vector<stacks::StackResult> first;
  {
    stacks::CellJournal journal(folder.path(), "test", resolved);
    Counting progress(&journal);
    first = stacks::confront(config, "test", progress).stacks;
    CHECK(progress.parts > 0);
    CHECK(progress.kept_predictions == 0);
  }
  stacks::CellJournal journal(folder.path(), "test", resolved);
  Counting progress(&journal);
  const std::vector<stacks::StackResult> again = stacks::confront(config, "test", progress).stacks;
  CHECK(progress.parts == 0);
  CHECK(progress.kept_predictions == 2 * 4);
  REQUIRE(again.size() == first.size());
  for (std::size_t i = 0; i < first.size(); ++i) check_same(first[i].prediction, again[i].prediction);
  // Another precision is another prediction.
  config::Config other = config;
  other.theory.tolerance = 0.05;
  Counting other_progress(&journal);
  (void)stacks::confront(other, "test", other_progress);
  CHECK(other_progress.kept_predictions == 0);
}

TEST_CASE("the key of a prediction depends on all that it follows from") {
  const config::Config config = small_config();
  const StackSpec spec = config.stacks().front();
  StackSpec wider = spec;
  wider.init.std *= 2.0;
  std::vector<config::Config> others(5, config);
  others[0].theory.tolerance = 0.05;
  others[1].theory.fault = theory::Fault::without_gate;
  others[2].run.seed += 1;
  others[3].run.seeds += 1;
  others[4].run.backward = false;
  std::set<std::string> keys{
      stacks::prediction_key("limit", spec, spec, config), stacks::prediction_key("chain", spec, spec, config),
      stacks::prediction_key("limit", wider, spec, config), stacks::prediction_key("limit", spec, wider, config)};
  for (const config::Config& other : others) keys.insert(stacks::prediction_key("limit", spec, spec, other));
  CHECK(keys.size() == 4 + others.size());
  CHECK(keys.contains(stacks::prediction_key("limit", spec, spec, config)));
}

TEST_CASE("predictions of first steps are in the journal to their last bit, every number in its place") {
  const testing::TemporaryFolder folder;
  first_steps::FirstStepsConfig config;
  config.base = theory::small_stack("peri");
  config.train.steps = 3;
  config.neurons = 16;
  config.chains = 2;
  const theory::FirstStepsInput input = theory::small_input({1e-3, 3e-3, 2e-3});
  const config::Resolved resolved = config::resolved(config);
  const auto predicted = [&](int kept) {
    stacks::CellJournal journal(folder.path(), "test", resolved);
    Counting progress(&journal);
    theory::FirstSteps prediction = first_steps::predict(config, config.base, input, "test", progress);
    CHECK(progress.kept_predictions == kept);
    return prediction;
  };
  const theory::FirstSteps first = predicted(0);
  const theory::FirstSteps again = predicted(1);
  CHECK(again.holds_until == first.holds_until);
  CHECK(again.stopped_by == first.stopped_by);
  REQUIRE(first.steps.size() == 4);
  REQUIRE(again.steps.size() == 4);
  std::set<double> numbers{first.steps[3].kept_share, first.steps[3].left_out, first.steps[3].gains};
  CHECK(numbers.size() == 3);  // so that swapping two of them is detected
  for (std::size_t s = 0; s < first.steps.size(); ++s) {
    const theory::StepReading& a = first.steps[s];
    const theory::StepReading& b = again.steps[s];
    CHECK(same_bits({a.kept_share, a.left_out, a.gains}, {b.kept_share, b.left_out, b.gains}));
    for (Curve theory::StepReading::*curve :
         {&theory::StepReading::second_moment, &theory::StepReading::coherent, &theory::StepReading::branch_cosine,
          &theory::StepReading::branch_second_moment, &theory::StepReading::loss, &theory::StepReading::change,
          &theory::StepReading::loss_change}) {
      CHECK(same_bits((a.*curve).value, (b.*curve).value));
      CHECK(same_bits((a.*curve).standard_error, (b.*curve).standard_error));
    }
    check_same(a.update, b.update);
  }
}

TEST_CASE("a precision that was asked for is another configuration than the same one by default") {
  config::Config by_default = small_config();
  by_default.theory = {};
  config::Config asked = by_default;
  asked.theory.tolerance = by_default.theory.wanted_tolerance();
  CHECK(by_default.theory.wanted_tolerance() == asked.theory.wanted_tolerance());
  CHECK(config::config_sha256(config::resolved(by_default)) != config::config_sha256(config::resolved(asked)));
  CHECK_FALSE(by_default.theory.precision_was_given());
  CHECK(asked.theory.precision_was_given());
}

TEST_CASE("a cell that is no prediction of the stack is refused") {
  const config::Config config = small_config();
  stacks::Progress progress;
  const theory::Prediction whole = stacks::predict_alone(config, progress).stacks.front().prediction;
  const ModelSpec model = config.stacks().front().model;
  const Json cell = stacks::cached_prediction_json(whole);
  check_same(stacks::cached_prediction(stacks::JournalPart(cell, "FILE: record 1"), model), whole);
  const auto refused = [&](auto edit) {
    Json edited = cell;
    edit(edited);
    CHECK_THROWS_AS(stacks::cached_prediction(stacks::JournalPart(edited, "FILE: record 1"), model), InputError);
  };
  refused([](Json& c) { c.erase("finite_width"); });
  refused([](Json& c) { c["finite_width"] = ""; });
  refused([](Json& c) { c["tolerances"] = "0"; });
  refused([](Json& c) { c["counts"] = {1, 2}; });
  refused([](Json& c) { c["exact_at_width"] = true; });
  refused([](Json& c) { c["profile"]["curves"] = Json::array(); });
  refused([](Json& c) { c["profile"]["curves"][0][0] = 99; });
  refused([](Json& c) { c["profile"]["curves"][0][1] = -1; });
  refused([](Json& c) { c["profile"]["curves"][0][2] = std::string(16, '0'); });
  refused([](Json& c) { c["profile"]["curves"].push_back(c["profile"]["curves"][0]); });
  refused([](Json& c) { c["profile"]["angles"] = std::string(16, '0'); });
}

}  // namespace periscope
