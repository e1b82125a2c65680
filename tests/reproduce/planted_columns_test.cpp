#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "experiments/engine/result/json_image.h"
#include "experiments/engine/run/regime.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "tests/support/doctest.h"
#include "tests/support/planted_result.h"

namespace periscope::testing {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<double>;
using training::RecordedValues;
using training::TrainedCell;

constexpr int layers = 3;
constexpr std::size_t sublayers = 2 * layers;
constexpr std::size_t depths = sublayers + 1;
constexpr int steps = 80;
constexpr int lost = 60;  ///< the step at which one run is no longer finite
const std::vector<int> record_steps{0, 1, 2, 5, 10, 20, 40, 50, 80};

const std::vector<Weight>& matrices() {
  static const std::vector<Weight> all{Weight::q,    Weight::k,  Weight::v,   Weight::o,
                                       Weight::gate, Weight::up, Weight::down};
  return all;
}

std::string gradient_of(Weight weight) { return "grad_sq.weight." + std::string(name_of(weight)); }

/// What only the last record has: theory and random models at the weights' own sizes (T29).
constexpr std::array at_own_sizes{
    "scaled_second_moment", "scaled_second_moment_stderr", "profiled_second_moment", "profiled_second_moment_stderr",
    "profiled_deviation",   "rescaled_second_moment",      "signs_log_moment",       "signs_deviation"};

RecordedValues planted_record(Planted& numbers, bool at_end) {
  RecordedValues record;
  for (const char* name : {"variance.x_out", "second_moment.x_out"}) record[name] = numbers.take(depths);
  for (const char* name : {"growth_stream", "growth_branch", "growth_cross", "growth_sum", "gain_mean.norm_a",
                           "gain_mean.norm_b", "gain_mean.norm_c", "gain_rms.norm_b"}) {
    record[name] = numbers.take(sublayers);
  }
  for (const Weight weight : matrices()) record[gradient_of(weight)] = numbers.take(layers);
  record["attention_entropy"] = numbers.take(layers);
  record["angular_distance"] = numbers.take(depths * depths);
  record["validation_loss"] = numbers.take(1);
  record["top_magnitudes"] = numbers.take(5);
  if (!at_end) return record;
  for (const char* name : at_own_sizes) record[name] = numbers.take(depths);
  return record;
}

/// A steady series with a spike at these steps.
Values with_spikes(double start, const std::vector<int>& at, int length) {
  Values series;
  for (int s = 1; s <= length; ++s) {
    const bool spike = std::ranges::find(at, s) != at.end();
    series.push_back((start + 0.01 * std::sin(7.0 * s)) * (spike ? 50.0 : 1.0));
  }
  return series;
}

TrainedCell planted_cell(Planted& numbers, int seed, double level, bool diverges) {
  TrainedCell cell;
  cell.cell.spec.model.layers = layers;
  cell.cell.spec.model.vocab = 256;
  cell.cell.train.steps = steps;
  cell.cell.seed = 70 + static_cast<std::uint64_t>(seed);
  const int length = diverges ? lost : steps;
  cell.history.loss = with_spikes(level, {30, 71}, length);
  cell.history.grad_norm = with_spikes(10.0 + level, {50}, length);
  cell.history.last_layer_norm = numbers.take(static_cast<std::size_t>(length));
  if (diverges) cell.history.loss.back() = std::numeric_limits<double>::infinity();
  for (const int step : record_steps) {
    if (step <= length) cell.history.records[step] = planted_record(numbers, step == steps);
  }
  return cell;
}

/// Two groups of three seeds; the last seed of the second group diverges.
reproduce::ReproduceResult planted_result() {
  Planted numbers;
  reproduce::ReproduceResult result;
  for (int g = 0; g < 2; ++g) {
    reproduce::GroupRuns runs;
    runs.group.name = g == 0 ? "peri" : "pre, Xavier";
    runs.group.study = g == 0 ? "base" : "init";
    runs.group.spec.model.placement = *find_placement(g == 0 ? "peri" : "pre");
    runs.group.spec.init.scheme = g == 0 ? InitScheme::normal : InitScheme::xavier;
    runs.group.spec.init.std = 0.03 + g;
    runs.group.train.lr = 0.5 + g;
    runs.group.train.weight_decay = 0.25 + g;
    for (int s = 0; s < 3; ++s) runs.cells.push_back(planted_cell(numbers, s, 2.0 + 3 * g + s, g == 1 && s == 2));
    result.groups.push_back(std::move(runs));
  }
  theory::Prediction initial;
  const auto plant = [&](Curve& curve, std::size_t length) {
    curve = {.value = numbers.take(length), .standard_error = numbers.take(length)};
  };
  for (const Signal signal : {Signal::x_in, Signal::x_out}) {
    plant(initial.profile.curves[{Statistic::second_moment, signal}], depths);
    plant(initial.profile.curves[{Statistic::variance, signal}], depths);
  }
  for (const Weight weight : matrices()) plant(initial.profile.weight_curves[{Statistic::grad_sq, weight}], layers);
  result.initial["peri"] = initial;
  result.loss_floor = 1.25;
  return result;
}

/// Eq. 4 (T15 without its cosine): every depth from the one before, by the shares that were recorded.
Values eq4_of(const RecordedValues& record) {
  const Values& q = record.at("second_moment.x_out");
  Values eq4{q[0]};
  for (std::size_t l = 0; l < sublayers; ++l) {
    const double sum = eq4[l] * record.at("growth_stream")[l] / q[l] + record.at("growth_branch")[l];
    eq4.push_back(sum * q[l + 1] / record.at("growth_sum")[l]);
  }
  return eq4;
}

Values layer_gradient_of(const RecordedValues& record) {
  Values sum(layers, 0.0);
  for (const Weight weight : matrices()) {
    for (std::size_t l = 0; l < layers; ++l) sum[l] += record.at(gradient_of(weight))[l];
  }
  return sum;
}

/// What a curve of figures is of, and whether its mean is geometric.
struct Average {
  std::function<Values(const RecordedValues&)> of;
  bool geometric;
};

const std::map<std::string, Average>& averages() {
  const auto recorded = [](const char* name) { return [name](const RecordedValues& r) { return r.at(name); }; };
  static const std::map<std::string, Average> all{{"variance", {recorded("variance.x_out"), true}},
                                                  {"second_moment", {recorded("second_moment.x_out"), true}},
                                                  {"eq4", {eq4_of, true}},
                                                  {"layer_gradient", {layer_gradient_of, true}},
                                                  {"growth_branch", {recorded("growth_branch"), true}},
                                                  {"growth_cross", {recorded("growth_cross"), false}},
                                                  {"gain_b", {recorded("gain_mean.norm_b"), false}},
                                                  {"attention_entropy", {recorded("attention_entropy"), false}},
                                                  {"angular_distance", {recorded("angular_distance"), false}}};
  return all;
}

struct Spread {
  double mean, error;
};

Spread spread_of(const Values& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0.0;
  for (const double v : values) sum += v;
  double squares = 0.0;
  for (const double v : values) squares += (v - sum / n) * (v - sum / n);
  return {sum / n, std::sqrt(squares / (n - 1.0) / n)};
}

/// Mean or standard error of a curve, one record behind the other, over the seeds that have the record.
Values averaged_of(const Average& average, bool error, const reproduce::GroupRuns& runs) {
  Values all;
  for (const int step : record_steps) {
    std::vector<Values> curves;
    for (const TrainedCell& cell : runs.cells) {
      if (const auto it = cell.history.records.find(step); it != cell.history.records.end())
        curves.push_back(average.of(it->second));
    }
    for (std::size_t i = 0; i < curves.front().size(); ++i) {
      Values entries;
      for (const Values& curve : curves) entries.push_back(average.geometric ? std::log(curve[i]) : curve[i]);
      const Spread spread = spread_of(entries);
      all.push_back(error ? spread.error : average.geometric ? std::exp(spread.mean) : spread.mean);
    }
  }
  return all;
}

double final_loss_of(const TrainedCell& cell) {
  const Values& loss = cell.history.loss;
  if (loss.size() < steps) return std::log(256.0);
  constexpr std::size_t last_tenth = steps / 10;
  double sum = 0.0;
  for (std::size_t s = steps - last_tenth; s < steps; ++s) sum += loss[s];
  return sum / static_cast<double>(last_tenth);
}

std::optional<Values> expected_of_seed(const std::string& column, const TrainedCell& cell) {
  const training::CellHistory& h = cell.history;
  const bool ends = h.loss.size() == steps;
  const RecordedValues& first = h.records.begin()->second;
  const RecordedValues& last = h.records.rbegin()->second;
  const auto only_at_the_end = [&](const std::function<Values()>& make) { return ends ? make() : Values(); };
  const auto by_record = [&](const std::function<double(const RecordedValues&)>& read) {
    Values values;
    for (const int step : record_steps) {
      const auto it = h.records.find(step);
      values.push_back(it == h.records.end() ? std::nan("") : read(it->second));
    }
    return values;
  };
  if (column == "loss") return h.loss;
  if (column == "grad_norm") return h.grad_norm;
  if (column == "last_layer_grad_norm") return h.last_layer_norm;
  if (column == "final_loss") return Values{final_loss_of(cell)};
  if (column == "diverged_at") return Values{ends ? std::nan("") : static_cast<double>(lost)};
  // Those before the end, at the rate of the steps that were done; the loss that is not finite is none.
  if (column == "spikes") return Values{ends ? 3.0 : 2.0 * steps / lost};
  if (column == "spike") {
    Values starts(h.loss.size(), 0.0);
    for (const std::size_t step : {30U, 50U}) starts[step - 1] = 1.0;
    if (ends) starts[70] = 1.0;
    return starts;
  }
  if (column.starts_with("scaled_") || column.starts_with("rescaled_") || column.starts_with("profiled_"))
    return only_at_the_end([&] { return last.at(column); });
  if (column == "growth_from_scales") {
    return only_at_the_end([&] {
      return Values{std::log(last.at("scaled_second_moment").back() / first.at("second_moment.x_out").back())};
    });
  }
  if (column == "growth_from_sizes_inside") {
    return only_at_the_end([&] {
      return Values{std::log(last.at("profiled_second_moment").back() / last.at("scaled_second_moment").back())};
    });
  }
  if (column == "growth_from_alignment") {
    return only_at_the_end([&] {
      return Values{std::log(last.at("second_moment.x_out").back() / last.at("profiled_second_moment").back())};
    });
  }
  const auto of_order = [&](bool directions, bool sizes, bool alone) {
    return only_at_the_end([&] {
      const double before = std::log(first.at("second_moment.x_out").back());
      const double directed = std::log(last.at("rescaled_second_moment").back());
      return Values{(directions ? directed - before : 0.0) +
                    (sizes ? std::log(last.at("second_moment.x_out").back()) - directed : 0.0) -
                    (alone ? std::log(last.at("scaled_second_moment").back()) - before : 0.0)};
    });
  };
  if (column == "growth_from_directions") return of_order(true, false, false);
  if (column == "growth_from_scales_given_directions") return of_order(false, true, false);
  if (column == "growth_interaction") return of_order(false, true, true);
  if (column == "growth_alignment_error")
    return only_at_the_end([&] { return Values{last.at("profiled_deviation").back()}; });
  if (column == "growth_beyond_signs") {
    return only_at_the_end(
        [&] { return Values{std::log(last.at("second_moment.x_out").back()) - last.at("signs_log_moment").back()}; });
  }
  if (column == "growth_beyond_signs_error")
    return only_at_the_end([&] { return Values{last.at("signs_deviation").back()}; });
  if (column == "validation_loss") return by_record([](const auto& r) { return r.at("validation_loss").front(); });
  if (column == "top_first") return by_record([](const auto& r) { return r.at("top_magnitudes").front(); });
  if (column == "top_last") return by_record([](const auto& r) { return r.at("top_magnitudes").back(); });
  if (column == "cosine_share")
    return by_record([](const auto& r) { return std::log(r.at("second_moment.x_out").back() / eq4_of(r).back()); });
  return std::nullopt;
}

std::optional<Values> expected_of_group(const std::string& column, const reproduce::GroupRuns& runs,
                                        const reproduce::ReproduceResult& result) {
  const bool base = runs.group.study == "base";
  if (column == "lr") return Values{runs.group.train.lr};
  if (column == "weight_decay") return Values{runs.group.train.weight_decay};
  if (column == "init_std") return base ? Values{runs.group.spec.init.std} : Values();
  Values losses;
  for (const TrainedCell& cell : runs.cells) losses.push_back(final_loss_of(cell));
  if (column == "final_loss_mean") return Values{spread_of(losses).mean};
  if (column == "final_loss_stderr") return Values{spread_of(losses).error};
  for (const auto& [name, average] : averages()) {
    if (column == name + "_measured") return averaged_of(average, false, runs);
    if (column == name + "_stderr") return averaged_of(average, true, runs);
  }
  if (column.find("_predicted") == std::string::npos) return std::nullopt;
  if (!base) return Values();
  const Profile& profile = result.initial.at(runs.group.name).profile;
  const Curve& moment = profile.curves.at({Statistic::second_moment, Signal::x_out});
  if (column == "second_moment_predicted") return moment.value;
  if (column == "second_moment_predicted_stderr") return moment.standard_error;
  if (column == "variance_predicted") return profile.curves.at({Statistic::variance, Signal::x_out}).value;
  Values sum(layers, 0.0);
  for (const Weight weight : matrices()) {
    const Curve& curve = profile.weight_curves.at({Statistic::grad_sq, weight});
    const Values& of = column == "layer_gradient_predicted" ? curve.value : curve.standard_error;
    for (std::size_t l = 0; l < layers; ++l) sum[l] += of[l];
  }
  if (column == "layer_gradient_predicted" || column == "layer_gradient_predicted_stderr") return sum;
  return std::nullopt;
}

reproduce::ReproduceConfig planted_config() {
  reproduce::ReproduceConfig config;
  config.base.model.layers = layers;
  config.run.seeds = 3;
  config.run.seed = 70;
  config.train.steps = steps;
  config.train.record_every = 40;
  config.quick = true;
  return config;
}

TEST_CASE("reproduce's columns: each has the planted numbers that its name says") {
  const reproduce::ReproduceResult result = planted_result();
  const dataset::Dataset data = reproduce::dataset_of(planted_config(), result);
  const auto check = [&](const dataset::ColumnSpec& column, const std::optional<Values>& expected,
                         const std::vector<std::pair<std::string, std::size_t>>& at) {
    REQUIRE_MESSAGE(expected, "no test for the column ", column.name);
    const Values found = numbers_at(data, column.name, at);
    Values padded = *expected;  // with nothing behind the end of a run that diverged, and where nothing is known
    padded.resize(std::max(padded.size(), found.size()), std::nan(""));
    check_values(found, padded);
  };
  for (const dataset::ColumnSpec& column : reproduce::schema().columns()) {
    // Claims, fits of laws over depth and labels have tests of their own, beside what they are made of.
    const bool elsewhere = column.name.starts_with("claim") || column.dimensions.ends_with("law") ||
                           column.name.starts_with("sublayer_") || column.name == "growth_law" ||
                           column.name == "growth_effective_points";
    if (elsewhere || column.dimensions == column.name) continue;
    CAPTURE(column.name);
    if (column.name == "regime") {
      CHECK(texts_of(data, "regime") ==
            std::vector<std::string>{stacks::in_one_line(reproduce::regime_of(planted_config()))});
      continue;
    }
    if (!column.dimensions.starts_with("group")) {
      REQUIRE_MESSAGE((column.name == "loss_floor" || column.name == "quick"), "no test for the column ", column.name);
      check_values(numbers_of(data, column.name), {column.name == "quick" ? 1.0 : 1.25});
      continue;
    }
    if (column.type == dataset::Type::text) continue;  // of the JSON's test
    for (std::size_t g = 0; g < 2; ++g) {
      INFO("group ", g);
      const reproduce::GroupRuns& runs = result.groups[g];
      if (column.dimensions.starts_with("group seed")) {
        for (std::size_t s = 0; s < runs.cells.size(); ++s) {
          INFO("seed ", s);
          check(column, expected_of_seed(column.name, runs.cells[s]), {{"group", g}, {"seed", s}});
        }
      } else {
        check(column, expected_of_group(column.name, runs, result), {{"group", g}});
      }
    }
  }
}

TEST_CASE("reproduce's JSON: groups and their runs say where they stand") {
  const reproduce::ReproduceResult result = planted_result();
  const Json json = dataset::json_image(reproduce::schema(), reproduce::dataset_of(planted_config(), result));
  REQUIRE(json["groups"].size() == 2);
  for (std::size_t g = 0; g < 2; ++g) {
    const bool base = g == 0;
    const Json& group = json["groups"][g];
    CHECK(group["group"] == (base ? "peri" : "pre, Xavier"));
    CHECK(group["placement"] == (base ? "peri" : "pre"));
    CHECK(group["study"] == (base ? "base" : "init"));
    REQUIRE(group["seeds"].size() == 3);
    for (std::size_t s = 0; s < 3; ++s) {
      CHECK(group["seeds"][s]["seed"] == 70 + s);
      CHECK(group["seeds"][s]["loss"][0] == result.groups[g].cells[s].history.loss[0]);
    }
  }
}

TEST_CASE("reproduce's file: groups, seeds, steps and records have their places") {
  const reproduce::ReproduceResult result = planted_result();
  const dataset::Dataset file = reproduce::dataset_of(planted_config(), result);
  CHECK(texts_of(file, "group") == std::vector<std::string>{"peri", "pre, Xavier"});
  CHECK(numbers_of(file, "seed") == Values{70, 71, 72});
  check_values(numbers_of(file, "record"), {record_steps.begin(), record_steps.end()});
  for (const auto& [name, first, length] : {std::tuple<const char*, double, std::size_t>{"step", 1.0, steps},
                                            {"depth", 0.0, depths},
                                            {"other_depth", 0.0, depths},
                                            {"sublayer", 0.0, sublayers},
                                            {"layer", 0.0, layers}}) {
    const std::string dimension = name;
    INFO(dimension);
    const Values found = numbers_of(file, dimension);
    CHECK(found.size() == length);
    CHECK(found.front() == first);
    CHECK(found.back() == first + static_cast<double>(length) - 1.0);
  }
  for (std::size_t l = 0; l < sublayers; ++l) {
    CHECK(texts_of(file, "sublayer_kind")[l] == (l % 2 == 0 ? "attention" : "mlp"));
    CHECK(numbers_of(file, "sublayer_layer")[l] == std::floor(static_cast<double>(l) / 2.0));
    CHECK(numbers_of(file, "sublayer_branch")[l] == 0.0);
  }
  Values loss;
  for (const reproduce::GroupRuns& runs : result.groups) {
    for (const TrainedCell& cell : runs.cells) {
      loss.insert(loss.end(), cell.history.loss.begin(), cell.history.loss.end());
      loss.insert(loss.end(), steps - cell.history.loss.size(), std::nan(""));
    }
  }
  check_values(numbers_of(file, "loss"), loss);
}

TEST_CASE("theory that was refused leaves no columns") {
  reproduce::ReproduceResult result = planted_result();
  result.initial.at("peri") = {};
  result.initial.at("peri").refusal = "it overflows";
  const Json json = dataset::json_image(reproduce::schema(), reproduce::dataset_of(planted_config(), result));
  CHECK_FALSE(json["groups"][0].contains("theory"));
}

TEST_CASE("reproduce's table: final loss, the variance at the top at the end, and how many runs diverged") {
  const reproduce::ReproduceResult result = planted_result();
  const std::string text = reproduce::table(planted_config(), result);
  const reproduce::GroupRuns& runs = result.groups.front();
  Values losses, logs;
  for (const TrainedCell& cell : runs.cells) {
    losses.push_back(final_loss_of(cell));
    logs.push_back(std::log(cell.history.records.at(steps).at("variance.x_out").back()));
  }
  const std::vector<std::string> row = table_row(text, {"peri"});
  CAPTURE(row);
  REQUIRE(row.size() >= 9);
  CHECK(row[1] == fmt::format("{:.4f}", spread_of(losses).mean));
  CHECK(row[3] == fmt::format("{:.4f}", spread_of(losses).error));
  CHECK(row[4] == fmt::format("{:.3g}", std::exp(spread_of(logs).mean)));
  CHECK(row[5] == "3.0");
  CHECK(std::vector<std::string>(row.end() - 3, row.end()) == std::vector<std::string>{"0", "of", "3"});
  const std::vector<std::string> other = table_row(text, {"pre,", "Xavier"});
  CHECK(std::vector<std::string>(other.end() - 3, other.end()) == std::vector<std::string>{"1", "of", "3"});
}

}  // namespace
}  // namespace periscope::testing
