#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "experiments/engine/result/json_image.h"
#include "experiments/studies/train/report.h"
#include "sim/measure/probe.h"
#include "sim/numerics/number_format.h"
#include "sim/train/spikes.h"
#include "tests/support/doctest.h"
#include "tests/support/planted_result.h"

namespace periscope::testing {
namespace {

using Json = nlohmann::ordered_json;
using training::RecordedValues;
using training::TrainedCell;

constexpr int layer_count = 2;
constexpr std::size_t sublayer_count = std::size_t{2} * layer_count;
constexpr int step_count = 200;
constexpr int seeds = 2;

/// A steady series with a spike at each of these steps, other numbers for every `start`.
std::vector<double> with_spikes(double start, const std::vector<int>& at, int length) {
  std::vector<double> series;
  for (int s = 1; s <= length; ++s) {
    const bool spike = std::ranges::find(at, s) != at.end();
    series.push_back((start + 0.01 * std::sin(7.0 * s)) * (spike ? 50.0 : 1.0));
  }
  return series;
}

/// The names of a record and their lengths, each with a value of its own at every entry.
RecordedValues planted_record(Planted& numbers) {
  RecordedValues record;
  record["validation_loss"] = numbers.take(1);
  for (const char* name : {"stream", "branch", "cross", "sum", "residual"}) {
    record[std::string("growth_") + name] = numbers.take(sublayer_count);
  }
  record["largest"] = numbers.take(sublayer_count);
  std::vector<double>& largest = record["largest"];
  std::rotate(largest.begin(), largest.begin() + 2, largest.end());  // the largest is neither first nor last
  record["top_magnitudes"] = numbers.take(top_count);
  record["top_depths"] = numbers.take(top_count);
  record["angular_distance"] = numbers.take((sublayer_count + 1) * (sublayer_count + 1));
  record["attention_entropy"] = numbers.take(layer_count);
  for (const char* norm : {"norm_a", "norm_b", "norm_c"}) {
    record[std::string("gain_mean.") + norm] = numbers.take(sublayer_count);
    record[std::string("gain_rms.") + norm] = numbers.take(sublayer_count);
  }
  for (const std::string_view statistic : statistic_names) {
    for (const Signal signal : stream_signals) {
      record[std::string(statistic) + "." + std::string(name_of(signal))] =
          numbers.take(sublayer_count + (runs_over_depth(signal) ? 1 : 0));
    }
  }
  record["maximum.sum"] = numbers.take(sublayer_count + 1);
  for (std::size_t w = 0; is_layer_matrix(static_cast<Weight>(w)); ++w) {
    for (const char* name : {"grad_sq", "log_grad_sq", "root_mean_square"}) {
      record[std::string(name) + ".weight." + std::string(weight_names[w])] = numbers.take(layer_count);
    }
  }
  return record;
}

/// Two placements and two seeds, with records of three steps; the last cell ends after the second of them.
training::TrainResult planted_result() {
  Planted numbers;
  training::TrainResult result{.cells = {}, .initial = {}, .loss_floor = 1.25, .stopped_early = false};
  for (std::size_t c = 0; c < 4; ++c) {
    TrainedCell cell;
    cell.cell.spec.model.layers = layer_count;
    cell.cell.spec.model.placement = *find_placement(c < 2 ? "pre" : "peri");
    cell.cell.spec.settings = c < 2 ? R"({"model.placement":"pre"})" : R"({"model.placement":"peri"})";
    cell.cell.train.steps = step_count;
    cell.cell.train.lr = 0.1 * static_cast<double>(c + 1);
    cell.cell.seed = 70 + c % seeds;
    const bool diverges = c == 3;
    const int length = diverges ? 150 : step_count;
    const auto start = static_cast<double>(c);
    cell.history.loss = with_spikes(3.0 + start, {60, 170}, length);
    cell.history.grad_norm = with_spikes(20.0 + start, {30, 138, 158, 190}, length);
    cell.history.last_layer_norm = numbers.take(static_cast<std::size_t>(length));
    if (diverges) cell.history.loss.back() = std::numeric_limits<double>::infinity();
    for (const int step : {0, 100, 200}) {
      if (step <= length) cell.history.records[step] = planted_record(numbers);
    }
    result.cells.push_back(std::move(cell));
  }
  for (int p = 0; p < 2; ++p) {
    result.initial.emplace_back().profile.curves[{Statistic::variance, Signal::x_out}] = {
        .value = numbers.take(sublayer_count + 1), .standard_error = numbers.take(sublayer_count + 1)};
  }
  return result;
}

training::TrainConfig planted_config() {
  training::TrainConfig config;
  config.base.model.layers = layer_count;
  config.run.seeds = seeds;
  config.train.steps = step_count;
  return config;
}

/// What a column of curves says: "site_variance_measured" as its statistic, and where it stands.
struct CurveName {
  std::string statistic;
  enum class Kind { stream, second_stream, sum, site, weight } kind;
};

std::optional<CurveName> curve_of(const std::string& column) {
  constexpr std::string_view suffix = "_measured";
  if (!column.ends_with(suffix)) return std::nullopt;
  std::string stem = column.substr(0, column.size() - suffix.size());
  const auto without = [&](std::string_view prefix) {
    if (!stem.starts_with(prefix)) return false;
    stem.erase(0, prefix.size());
    return true;
  };
  using Kind = CurveName::Kind;
  const Kind kind = without("r_out_")    ? Kind::second_stream
                    : without("sum_")    ? Kind::sum
                    : without("site_")   ? Kind::site
                    : without("weight_") ? Kind::weight
                                         : Kind::stream;
  return CurveName{stem, kind};
}

/// Checks a column that has a value, or a list of them, for every record.
void check_record_column(const dataset::Dataset& data, const dataset::ColumnSpec& column,
                         const training::TrainResult& result) {
  for (std::size_t c = 0; c < result.cells.size(); ++c) {
    std::size_t r = 0;
    for (const auto& item : result.cells[c].history.records) {
      const RecordedValues& record = item.second;
      const auto found = [&](const std::string& along = {}, std::size_t at = 0) {
        return numbers_at(data, column.name,
                          {{"placement", c / seeds}, {"seed", c % seeds}, {"record", r}, {along, at}});
      };
      INFO(column.name, " of cell ", c, ", record ", r);
      if (column.name == "margin") {
        for (std::size_t f = 0; f < number_formats.size(); ++f) {
          INFO(std::string(number_formats[f].name));
          check_values(found("format", f),
                       {number_formats[f].largest / *std::ranges::max_element(record.at("largest"))});
        }
      } else if (const auto curve = curve_of(column.name); curve || column.name == "weight_root_mean_square") {
        const std::string statistic = curve ? curve->statistic : "root_mean_square";
        if (!curve || curve->kind == CurveName::Kind::weight) {
          for (std::size_t w = 0; is_layer_matrix(static_cast<Weight>(w)); ++w) {
            const std::string name = fmt::format("{}.weight.{}", statistic, weight_names[w]);
            INFO(name);
            check_values(found("weight", w), record.at(name));
          }
        } else if (curve->kind == CurveName::Kind::site) {
          for (std::size_t s = 0; s < stream_signals.size(); ++s) {
            std::vector<double> values = record.at(statistic + "." + std::string(name_of(stream_signals[s])));
            if (runs_over_depth(stream_signals[s])) values.erase(values.begin());
            INFO(std::string(name_of(stream_signals[s])));
            check_values(found("site", s), values);
          }
        } else {
          const Signal signal = curve->kind == CurveName::Kind::stream ? Signal::x_out
                                : curve->kind == CurveName::Kind::sum  ? Signal::sum
                                                                       : Signal::r_out;
          check_values(found(), record.at(statistic + "." + std::string(name_of(signal))));
        }
      } else {
        // "gain_mean_norm_b" is "gain_mean.norm_b" in a record
        std::string name = column.name;
        if (name.starts_with("gain_")) name[name.find("_norm")] = '.';
        REQUIRE_MESSAGE(record.contains(name), "no test for the column " << column.name);
        check_values(found(), record.at(name));
      }
      ++r;
    }
  }
}

/// One number, or one series, of a cell.
std::optional<std::vector<double>> expected_of_cell(const std::string& column, const TrainedCell& cell) {
  const training::CellHistory& h = cell.history;
  const auto count = [](const std::vector<int>& found) { return std::vector{static_cast<double>(found.size())}; };
  if (column == "loss") return h.loss;
  if (column == "grad_norm") return h.grad_norm;
  if (column == "last_layer_grad_norm") return h.last_layer_norm;
  if (column == "lr") {
    std::vector<double> rates;
    for (int s = 1; s <= static_cast<int>(h.loss.size()); ++s) rates.push_back(learning_rate(cell.cell.train, s));
    return rates;
  }
  if (column == "diverged_at") return std::vector{h.loss.size() < step_count ? 150.0 : std::nan("")};
  if (column == "final_loss") {
    constexpr int last_tenth = step_count / 10;
    double sum = 0.0;
    for (std::size_t s = step_count - last_tenth; s < step_count; ++s)
      sum += s < h.loss.size() ? h.loss[s] : std::nan("");
    return std::vector{sum / static_cast<double>(last_tenth)};
  }
  if (column == "loss_spikes_olmo") return count(olmo_spikes(h.loss));
  if (column == "loss_spikes_robust") return count(robust_spikes(h.loss));
  if (column == "grad_norm_spikes_olmo") return count(olmo_spikes(h.grad_norm));
  if (column == "grad_norm_spikes_robust") return count(robust_spikes(h.grad_norm));
  return std::nullopt;
}

TEST_CASE("train's columns: each has the planted numbers that its name says") {
  const training::TrainResult result = planted_result();
  const TrainedCell& first = result.cells.front();
  const std::set<std::size_t> counts{olmo_spikes(first.history.loss).size(), robust_spikes(first.history.loss).size(),
                                     olmo_spikes(first.history.grad_norm).size(),
                                     robust_spikes(first.history.grad_norm).size()};
  REQUIRE_MESSAGE(counts.size() == 4, "the planted spikes must tell the columns apart");
  const dataset::Dataset data = train::dataset_of(planted_config(), result);
  for (const dataset::ColumnSpec& column : train::schema().columns()) {
    const bool label =
        column.name.starts_with("sublayer_") || column.dimensions == column.name || column.name == "placement_settings";
    if (label) continue;  // of the next test
    CAPTURE(column.name);
    if (column.name == "loss_floor") {
      check_values(numbers_of(data, "loss_floor"), {1.25});
    } else if (column.name.starts_with("variance_predicted")) {
      for (std::size_t p = 0; p < result.initial.size(); ++p) {
        const Curve& planted = *result.initial[p].profile.find(Statistic::variance, Signal::x_out);
        check_values(numbers_at(data, column.name, {{"placement", p}}),
                     column.name == "variance_predicted" ? planted.value : planted.standard_error);
      }
    } else if (column.dimensions.find("record") != std::string::npos) {
      check_record_column(data, column, result);
    } else {
      for (std::size_t c = 0; c < result.cells.size(); ++c) {
        INFO("cell ", c);
        auto expected = expected_of_cell(column.name, result.cells[c]);
        REQUIRE_MESSAGE(expected, "no test for the column " << column.name);
        if (expected->size() > 1) expected->resize(step_count, std::nan(""));
        check_values(numbers_at(data, column.name, {{"placement", c / seeds}, {"seed", c % seeds}}), *expected);
      }
    }
  }
}

TEST_CASE("train's JSON: runs and their records say where they stand") {
  const training::TrainResult result = planted_result();
  const Json json = dataset::json_image(train::schema(), train::dataset_of(planted_config(), result));
  REQUIRE(json["cells"].size() == 4);
  CHECK(json["coordinates"]["placement_settings"] ==
        Json::array({R"({"model.placement":"pre"})", R"({"model.placement":"peri"})"}));
  for (std::size_t c = 0; c < 4; ++c) {
    const Json& cell = json["cells"][c];
    CHECK(cell["placement"] == (c < 2 ? "pre" : "peri"));
    CHECK(cell["seed"] == 70 + c % seeds);
    CHECK(cell["loss"][10] == result.cells[c].history.loss[10]);
    CHECK(cell["diverged_at"] == (c == 3 ? Json(150) : Json()));
    CHECK(cell["records"].size() == (c == 3 ? 2 : 3));
    const Json& record = cell["records"][1];
    CHECK(record["record"] == 100);
    const RecordedValues& planted = result.cells[c].history.records.at(100);
    CHECK(record["variance"]["site"] == "x_out");
    CHECK(record["variance"]["measured"] == planted.at("variance.x_out"));
    CHECK(record["sites"]["f_out"]["variance"]["measured"] == planted.at("variance.f_out"));
    CHECK(record["weight_grad_sq"]["v"]["measured"] == planted.at("grad_sq.weight.v"));
  }
  CHECK(json["theory"][1]["placement"] == "peri");
  CHECK(json["theory"][1]["variance"] == result.initial[1].profile.find(Statistic::variance, Signal::x_out)->value);
  CHECK(json["coordinates"]["sublayer_kind"] == Json{"attention", "mlp", "attention", "mlp"});
  CHECK(json["coordinates"]["sublayer_layer"] == Json{0, 0, 1, 1});
}

TEST_CASE("train's file: placements, seeds and records have their places") {
  const training::TrainResult result = planted_result();
  const dataset::Dataset file = train::dataset_of(planted_config(), result);
  CHECK(texts_of(file, "placement") == std::vector<std::string>{"pre", "peri"});
  CHECK(numbers_of(file, "seed") == std::vector<double>{70, 71});
  CHECK(numbers_of(file, "record") == std::vector<double>{0, 100, 200});
  CHECK(numbers_of(file, "step").front() == 1.0);
  CHECK(numbers_of(file, "step").size() == step_count);
  std::vector<double> loss, validation;
  for (const TrainedCell& cell : result.cells) {
    for (std::size_t s = 0; s < step_count; ++s) {
      loss.push_back(s < cell.history.loss.size() ? cell.history.loss[s] : std::nan(""));
    }
    for (const int step : {0, 100, 200}) {
      const auto it = cell.history.records.find(step);
      validation.push_back(it == cell.history.records.end() ? std::nan("") : it->second.at("validation_loss").front());
    }
  }
  check_values(numbers_of(file, "loss"), loss);
  check_values(numbers_of(file, "validation_loss"), validation);
}

TEST_CASE("train's table says of which stack there is no prediction, or a coarse one") {
  training::TrainResult result = planted_result();
  result.initial[0] = {};
  result.initial[0].refusal = "no number at depth 3";
  result.initial[1].left_out = "fewer patterns";
  const std::string text = train::table(result);
  CHECK(text.find("theory of pre: no number at depth 3\n") != std::string::npos);
  CHECK(text.find("theory of peri: fewer patterns\n") != std::string::npos);
}

TEST_CASE("the runs of stacks whose names have the same letters are named apart") {
  training::TrainConfig config = planted_config();
  config.inputs = {InputKind::tokens};
  config.placements = {custom_placement({.norm_a = true, .norm_b = true}, "x/y"),
                       custom_placement({.norm_c = true}, "x_y"), custom_placement({.norm_a = true}, "xy-2"),
                       custom_placement({.norm_b = true}, "xy"), custom_placement({}, "..")};
  std::set<std::string> names;
  for (const training::TrainCell& cell : training::cells_of(config)) names.insert(cell.name);
  CHECK(names.size() == 5 * seeds);
  CHECK(names.contains("xy-seed0"));
  CHECK(names.contains("xy-2-seed0"));
  CHECK(names.contains("stack-seed0"));
}

TEST_CASE("train's table: the last record, the first one's variance, and what was lost") {
  const training::TrainResult result = planted_result();
  const std::string text = train::table(result);
  for (const TrainedCell& cell : result.cells) {
    const training::CellHistory& h = cell.history;
    const auto last = [&](const char* name) { return h.records.rbegin()->second.at(name).back(); };
    const std::string placement(cell.cell.spec.model.placement.name);
    const std::vector<std::string> row = table_row(text, {placement, fmt::format("{}", cell.cell.seed)});
    CAPTURE(row);
    REQUIRE(row.size() >= 11);
    const double final_loss = expected_of_cell("final_loss", cell)->front();
    CHECK(row[2] == (std::isnan(final_loss) ? "–" : fmt::format("{:.4f}", final_loss)));
    CHECK(row[3] == fmt::format("{:.4f}", last("validation_loss")));
    const theory::Prediction& initial = result.initial[placement == "pre" ? 0 : 1];
    CHECK(row[4] == fmt::format("{:.4g}", initial.profile.find(Statistic::variance, Signal::x_out)->value.back()));
    CHECK(row[5] == fmt::format("{:.4g}", h.records.begin()->second.at("variance.x_out").back()));
    CHECK(row[6] == fmt::format("{:.4g}", last("variance.x_out")));
    CHECK(row[8] == "50");  // the planted spikes of the gradient norm; the loss has other ones
    CHECK(row[9] == "at");
    CHECK(row[10] == fmt::format("{}", largest_jump(h.grad_norm).step));
    CHECK(std::vector(row.begin() + 11, row.end()) ==
          (h.loss.size() < step_count ? std::vector<std::string>{"step", "150"} : std::vector<std::string>{}));
  }
  CHECK(text.find("below 1.2500 nat") != std::string::npos);
}

}  // namespace
}  // namespace periscope::testing
