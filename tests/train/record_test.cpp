#include "experiments/engine/training/run_task.h"

#include <algorithm>
#include <cmath>

#include "sim/measure/model_reading.h"
#include "tests/support/doctest.h"
#include "tests/train/tiny_training.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;
using training::RecordedValues;

constexpr int windows = 3;

/// A record after three training steps, when gains differ from 1 and between norms.
struct Trained {
  explicit Trained(const char* placement)
      : spec(trained_stack(placement)), trainer(trainer_of(truth_target(), spec, few_steps(OptimizerKind::adamw), 5)) {
    for (int step = 0; step < 3; ++step) static_cast<void>(trainer.step());
    TrainSpec train = few_steps(OptimizerKind::adamw);
    train.record_sequences = windows;
    record = training::Recorder(truth(), spec, train, synthetic_language()).record(trainer.weights());
  }
  [[nodiscard]] const Values& at(const std::string& name) const { return record.at(name); }

  StackSpec spec;
  Trainer trainer;
  RecordedValues record;
};

/// Reads the weights over the held-out windows first … first + count − 1, as separate sequences.
ModelReading reading_of(const Trained& trained, int first, int count) {
  const StackContext context{
      .ops = truth(), .model = trained.spec.model, .weights = trained.trainer.weights(), .sequences = count};
  const Windows read = held_out(synthetic_language(), trained.spec.input.tokens + 1, windows);
  return read_model(
      context,
      {.ids = read.inputs(first, count), .labels = read.labels(first, count), .backward = true, .top = top_count});
}

TEST_CASE("record: loss and statistics are means over held-out windows, read as separate sequences") {
  const Trained trained("peri");
  double loss = 0.0;
  double variance = 0.0;
  for (int w = 0; w < windows; ++w) {
    const ModelReading one = reading_of(trained, w, 1);
    loss += one.loss / windows;
    variance += one.reading.profile.find(Statistic::variance, Signal::x_out)->value.back() / windows;
  }
  CHECK(trained.at("validation_loss").front() == approx(loss).epsilon(1e-12));
  CHECK(trained.at("variance.x_out").back() == approx(variance).epsilon(1e-12));
  CHECK(trained.at("variance.x_out").back() != trained.at("second_moment.x_out").back());
}

TEST_CASE("record: growth terms satisfy the growth identity (T15)") {
  const Trained trained("pre");
  const Values& q = trained.at("second_moment.x_out");
  for (std::size_t l = 0; l + 1 < q.size(); ++l) {
    CAPTURE(l);
    CHECK(trained.at("growth_stream")[l] == approx(q[l]).epsilon(1e-12));
    CHECK(trained.at("growth_branch")[l] == approx(trained.at("second_moment.B_out")[l]).epsilon(1e-12));
    CHECK(trained.at("growth_sum")[l] == approx(q[l + 1]).epsilon(1e-12));
    CHECK(trained.at("growth_stream")[l] + trained.at("growth_branch")[l] + trained.at("growth_cross")[l] ==
          approx(q[l + 1]).epsilon(1e-12));
  }
}

TEST_CASE("record: the largest entries over all depths are sorted and have their depths") {
  const Trained trained("pre");
  const ModelReading reading = reading_of(trained, 0, windows);
  std::vector<std::pair<double, double>> all;
  for (std::size_t depth = 0; depth < reading.extremes.depths.size(); ++depth) {
    for (const Entry& entry : reading.extremes.depths[depth].top) {
      all.emplace_back(std::abs(entry.value), static_cast<double>(depth));
    }
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first > b.first; });
  REQUIRE(trained.at("top_magnitudes").size() == static_cast<std::size_t>(top_count));
  REQUIRE(trained.at("top_depths").size() == static_cast<std::size_t>(top_count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(top_count); ++i) {
    CAPTURE(i);
    CHECK(trained.at("top_magnitudes")[i] == all[i].first);
    CHECK(trained.at("top_depths")[i] == all[i].second);
  }
  const Values& maxima = trained.at("maximum.x_out");
  CHECK(trained.at("top_magnitudes").front() == *std::ranges::max_element(maxima));
  CHECK(maxima[static_cast<std::size_t>(trained.at("top_depths").front())] == trained.at("top_magnitudes").front());
  const Values& largest = trained.at("largest");
  REQUIRE(largest.size() == maxima.size() - 1);
  for (std::size_t l = 0; l < largest.size(); ++l) CHECK(largest[l] >= trained.at("maximum.B_out")[l]);
}

TEST_CASE("record: gain statistics and weight sizes equal those of the parameters") {
  const Trained trained("peri");
  const auto layers = static_cast<std::size_t>(trained.spec.model.layers);
  std::size_t found = 0;
  for (const auto& [key, tensor] : trained.trainer.weights().parameters()) {
    const ParameterId id = key;
    const Values x = truth().to_host(tensor);
    double mean = 0.0;
    double square = 0.0;
    for (const double v : x) {
      mean += v / static_cast<double>(x.size());
      square += v * v / static_cast<double>(x.size());
    }
    const std::string name(name_of(id.weight));
    INFO(name, " ", id.sublayer);
    if (id.part == ParameterId::Part::matrix && is_layer_matrix(id.weight)) {
      const Values& sizes = trained.at("root_mean_square.weight." + name);
      REQUIRE(sizes.size() == layers);
      CHECK(sizes[static_cast<std::size_t>(id.layer())] == approx(std::sqrt(square)).epsilon(1e-12));
      ++found;
    }
    if (id.part == ParameterId::Part::gain && (id.weight == Weight::norm_a || id.weight == Weight::norm_b)) {
      const auto l = static_cast<std::size_t>(id.sublayer);
      REQUIRE(trained.at("gain_mean." + name).size() == 2 * layers);
      CHECK(trained.at("gain_mean." + name)[l] == approx(mean).epsilon(1e-12));
      CHECK(trained.at("gain_rms." + name)[l] == approx(std::sqrt(square)).epsilon(1e-12));
      CHECK(trained.at("gain_rms." + name)[l] != trained.at("gain_mean." + name)[l]);
      ++found;
    }
  }
  CHECK(found >= 2 * layers * 2 + 6 * layers);
  CHECK_FALSE(trained.record.contains("gain_mean.norm_c"));
}

}  // namespace
}  // namespace periscope::testing
