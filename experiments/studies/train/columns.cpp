#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/core/dataset/curve_columns.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/core/training/train.h"
#include "sim/measure/probe.h"
#include "sim/numerics/number_format.h"
#include "sim/train/spikes.h"

namespace periscope::train {
namespace {

using Json = Columns::Json;
using Values = std::vector<double>;

const std::string cell_path = "cells/[cell]/";
const std::string record_path = cell_path + "records/[record]/";
const std::string on_cell = "placement seed";
const std::string on_record = on_cell + " record";

constexpr std::string_view measured = "measured";

/// What a record has besides curves: its name there and as a column, on which dimensions behind the record.
struct RecordColumn {
  std::string name;
  std::string dimensions;
  std::string units;
  std::string meaning;
};

const std::vector<RecordColumn>& record_columns() {
  static const std::vector<RecordColumn> all = [] {
    std::vector<RecordColumn> columns{
        {"validation_loss", "", "nat", "cross-entropy on the held-out windows"},
        {"growth_stream", "sublayer", "1", "T15: alpha^2 q, mean over tokens"},
        {"growth_branch", "sublayer", "1", "T15: beta^2 s^2"},
        {"growth_cross", "sublayer", "1", "T15: 2 alpha beta sqrt(q) s cos(x, branch)"},
        {"growth_sum", "sublayer", "1", "T15: q of the stream after the sublayer, before norm C"},
        {"growth_residual", "sublayer", "1", "T15: worst token's deviation in units of what rounding explains"},
        {"largest", "sublayer", "1", "largest |x| of any signal of the sublayer, infinite if one is NaN"},
        {"top_magnitudes", "rank", "1", "largest |x| of the stream at all depths"},
        {"top_depths", "rank", "1", "the depths at which they are"},
        {"angular_distance", "depth other_depth", "1", "arccos(cos)/pi between the stream at two depths"},
        {"attention_entropy", "layer", "nat", "entropy of attention, mean over heads and tokens that see two or more"}};
    for (const Weight norm : {Weight::norm_a, Weight::norm_b, Weight::norm_c}) {
      const std::string name = text_of(norm);
      columns.push_back({"gain_mean." + name, "sublayer", "1", "mean over features of the gain of " + name});
      columns.push_back({"gain_rms." + name, "sublayer", "1", "root mean square of the gain of " + name});
    }
    return columns;
  }();
  return all;
}

std::string column_name(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name;
}

std::vector<ColumnSpec> all_columns() {
  const std::string on_step = on_cell + " step";
  std::vector<ColumnSpec> all{
      json_only("placement_value", cell_path + "placement", "name or table of the placement",
                "files have the coordinate placement"),
      json_only("seed_value", cell_path + "seed", "seed of weights and batches", "files have the coordinate seed"),
      {"loss", on_step, "nat", "training loss: mean over the batch, before the step", cell_path + "loss"},
      {"grad_norm", on_step, "nat", "norm of all gradients before clipping", cell_path + "grad_norm"},
      {"last_layer_grad_norm", on_step, "nat", "norm of the gradients of the last layer's parameters",
       cell_path + "last_layer_grad_norm"},
      {"lr", on_step, "1", "learning rate", cell_path + "lr"},
      {"diverged_at", on_cell, "1",
       "first step whose loss or gradient is not finite, or from which on (2 or later) the loss is never below that of "
       "step 1, for 20 steps or more of which the last 20 are 5 % above it, or with a last loss of ten times it",
       cell_path + "diverged_at"},
      {"final_loss", on_cell, "nat", "mean training loss of the last tenth of the steps", cell_path + "final_loss"},
      {"loss_floor", "", "nat", "smallest mean loss of any predictor of the corpus, if it is known", "loss_floor"},
      json_only("record_step", record_path + "step", "steps done", "files have the coordinate record")};
  for (const auto& [series, words] :
       {std::pair<std::string, std::string>{"loss", "the training loss"}, {"grad_norm", "the gradient norm"}}) {
    all.push_back({series + "_spikes_olmo", on_cell, "1",
                   "spikes of " + words + ": above mean + 6 standard deviations of the last 128 steps",
                   cell_path + "spikes/" + series + "/olmo"});
    all.push_back(
        {series + "_spikes_robust", on_cell, "1",
         "events in which the logarithm of " + words + " is above median + 6 * 1.4826 MAD of its up to 128 last steps",
         cell_path + "spikes/" + series + "/robust"});
  }
  for (const RecordColumn& c : record_columns()) {
    const std::string dimensions = c.dimensions.empty() ? on_record : on_record + " " + c.dimensions;
    all.push_back({column_name(c.name), dimensions, c.units, c.meaning, record_path + column_name(c.name)});
  }
  all.push_back({"weight_root_mean_square", on_record + " weight layer", "1", "of a matrix's entries",
                 record_path + "weight_root_mean_square/{weight}"});
  all.push_back({"margin", on_record + " format", "1", "the format's largest number over the largest |x| of any signal",
                 record_path + "margin/{format}"});
  const auto curves = curve_columns(on_record + " ", record_path,
                                    {{std::string(measured), "on the held-out windows, mean over their tokens"}});
  all.insert(all.end(), curves.begin(), curves.end());
  return all;
}

/// Puts what was recorded after one step.
class RecordWriter {
 public:
  RecordWriter(const RecordedValues& values, Columns::Row row) : values_(values), row_(std::move(row)) {}

  void put(int step) const {
    row_.put("record_step", step);
    for (const RecordColumn& c : record_columns()) {
      if (const Values* values = find(c.name)) {
        row_.put(column_name(c.name), c.dimensions.empty() ? Json(values->front()) : Json(*values));
      }
    }
    for (std::size_t s = 0; s < statistic_facts.size(); ++s) curves(static_cast<Statistic>(s));
    for (const Weight weight : layer_matrices()) {
      if (const Values* values = find(fmt::format("root_mean_square.weight.{}", name_of(weight)))) {
        row_.at("weight", static_cast<std::size_t>(weight), name_of(weight)).put("weight_root_mean_square", *values);
      }
    }
    margins();
  }

 private:
  static std::vector<Weight> layer_matrices() {
    std::vector<Weight> all;
    for (std::size_t w = 0; is_layer_matrix(static_cast<Weight>(w)); ++w) all.push_back(static_cast<Weight>(w));
    return all;
  }
  [[nodiscard]] const Values* find(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() || it->second.empty() ? nullptr : &it->second;
  }
  void curves(Statistic statistic) const {
    for (const Signal signal : stream_signals) {
      const Values* values = find(fmt::format("{}.{}", name_of(statistic), name_of(signal)));
      if (values != nullptr) CurvePlace(row_, statistic, signal).put(std::string(measured), *values);
    }
    if (statistic != Statistic::grad_sq && statistic != Statistic::log_grad_sq) return;
    for (const Weight weight : layer_matrices()) {
      const Values* values = find(fmt::format("{}.weight.{}", name_of(statistic), name_of(weight)));
      if (values != nullptr) CurvePlace(row_, statistic, weight).put(std::string(measured), *values);
    }
  }
  void margins() const {
    const Values* largest = find("largest");
    if (largest == nullptr) return;
    const double most = *std::ranges::max_element(*largest);
    for (std::size_t f = 0; f < number_formats.size(); ++f) {
      row_.at("format", f, number_formats[f].name).put("margin", number_formats[f].largest / most);
    }
  }

  const RecordedValues& values_;
  Columns::Row row_;
};

void put_cell(const TrainedCell& trained, const Columns::Row& row, const std::vector<int>& record_steps) {
  const CellHistory& h = trained.history;
  Values rates;
  for (std::size_t s = 1; s <= h.loss.size(); ++s)
    rates.push_back(learning_rate(trained.cell.train, static_cast<int>(s)));
  row.put("placement_value", resolved_json(trained.cell.spec)["model"]["placement"]);
  row.put("seed_value", trained.cell.seed);
  row.put("loss", h.loss);
  row.put("grad_norm", h.grad_norm);
  row.put("last_layer_grad_norm", h.last_layer_norm);
  row.put("lr", rates);
  const std::optional<int> diverged = divergence_step(h);
  row.put("diverged_at", diverged ? Json(*diverged) : Json());
  row.put("final_loss", mean_of_last_tenth(h, trained.cell.train.steps));
  row.put("loss_spikes_olmo", olmo_spikes(h.loss).size());
  row.put("loss_spikes_robust", spike_events(robust_spikes(h.loss)).size());
  row.put("grad_norm_spikes_olmo", olmo_spikes(h.grad_norm).size());
  row.put("grad_norm_spikes_robust", spike_events(robust_spikes(h.grad_norm)).size());
  for (const auto& [step, values] : h.records) {
    const auto place = std::ranges::find(record_steps, step) - record_steps.begin();
    RecordWriter(values, row.at("record", static_cast<std::size_t>(place))).put(step);
  }
}

}  // namespace

const Schema& schema() {
  static const Schema schema = [] {
    std::vector<DimensionSpec> dimensions{{"placement", "", "normalization placement (T1)"},
                                          {"seed", "1", "seed of weights and batches"},
                                          {"step", "1", "step of the optimizer", "", true},
                                          {"record", "1", "steps done"},
                                          {"format", "", "number format"}};
    for (const DimensionSpec& dimension : curve_dimensions()) dimensions.push_back(dimension);
    return Schema("train", 2, std::move(dimensions), all_columns());
  }();
  return schema;
}

Columns columns(const TrainConfig& config, const TrainResult& result, const nlohmann::ordered_json& provenance) {
  Columns columns(schema(), provenance);
  std::set<int> recorded;
  std::size_t steps = 0;
  for (const TrainedCell& cell : result.cells) {
    steps = std::max(steps, cell.history.loss.size());
    for (const auto& [step, values] : cell.history.records) recorded.insert(step);
  }
  const std::vector<int> record_steps(recorded.begin(), recorded.end());
  const auto seeds = static_cast<std::size_t>(config.run.seeds);
  columns.count("step", steps, 1);
  columns.put("record", record_steps);
  put_curve_coordinates(columns, static_cast<std::size_t>(config.base.model.sublayers()), top_count, true);
  for (std::size_t f = 0; f < number_formats.size(); ++f) columns.at("format", f).put("format", number_formats[f].name);
  if (result.loss_floor) columns.put("loss_floor", *result.loss_floor);
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const TrainedCell& trained = result.cells[i];
    const std::string label = placement_label(trained.cell.spec);
    columns.at("placement", i / seeds).put("placement", label);
    columns.at("seed", i % seeds).put("seed", trained.cell.seed);
    put_cell(trained, columns.at("placement", i / seeds).at("seed", i % seeds).at("cell", i), record_steps);
  }
  return columns;
}

std::string table(const TrainResult& result) {
  TextTable table({"placement", ">seed", ">final loss", ">validation", ">variance at init", ">variance at end",
                   ">spikes", "diverged"});
  for (const TrainedCell& trained : result.cells) {
    const CellHistory& h = trained.history;
    const auto last = [](const RecordedValues& values, const std::string& name) {
      const auto it = values.find(name);
      return it == values.end() ? std::numeric_limits<double>::quiet_NaN() : it->second.back();
    };
    const RecordedValues& first_record = h.records.begin()->second;
    const RecordedValues& last_record = h.records.rbegin()->second;
    const std::optional<int> diverged = divergence_step(h);
    table.add({placement_label(trained.cell.spec), fmt::format("{}", trained.cell.seed),
               fmt::format("{:.4f}", mean_of_last_tenth(h, trained.cell.train.steps)),
               fmt::format("{:.4f}", last(last_record, "validation_loss")),
               fmt::format("{:.4g}", last(first_record, "variance.x_out")),
               fmt::format("{:.4g}", last(last_record, "variance.x_out")),
               fmt::format("{}", events_of_run(h.loss, h.grad_norm).size()),
               diverged ? fmt::format("step {}", *diverged) : ""});
  }
  std::string text =
      table.text() +
      "final loss: mean over the last tenth of the steps; validation: on the held-out windows, at the "
      "last record; variance: of the stream at the top of the stack; spikes: events in which the logarithm "
      "of loss or gradient norm is 6 robust standard deviations above its median of the last 128 steps.\n";
  if (result.loss_floor) text += fmt::format("no predictor has a mean loss below {:.4f} nat.\n", *result.loss_floor);
  return text;
}

}  // namespace periscope::train
