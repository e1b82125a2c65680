#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/train/report.h"
#include "sim/measure/probe.h"
#include "sim/numerics/number_format.h"
#include "sim/train/spikes.h"

namespace periscope::train {
namespace {

using dataset::Builder;
using dataset::text_of;
using dataset::Type;
using Values = std::vector<double>;
using Row = Builder::Row;

const std::string on_run = "placement seed";
const std::string on_record = on_run + " record";

const Values* find(const training::RecordedValues& values, const std::string& name) {
  const auto it = values.find(name);
  return it == values.end() || it->second.empty() ? nullptr : &it->second;
}

/// Columns of the values in a record that are not curves.
dataset::Table<training::RecordedValues> value_table() {
  using R = training::RecordedValues;
  dataset::Table<R> table;
  const auto add = [&](const std::string& name, const std::string& along, const std::string& units,
                       const std::string& meaning, const std::string& recorded = "") {
    table.column_if_any({name, on_record + along, units, meaning},
                        [record = recorded.empty() ? name : recorded](const R& values) {
                          const Values* found = find(values, record);
                          return found == nullptr ? std::nullopt : std::optional(*found);
                        });
  };
  add("validation_loss", "", "nat", "cross-entropy on the held-out windows");
  add("growth_stream", " sublayer", "1", "growth identity (T15): alpha^2 q, mean over tokens");
  add("growth_branch", " sublayer", "1", "growth identity (T15): beta^2 s^2");
  add("growth_cross", " sublayer", "1", "growth identity (T15): 2 alpha beta sqrt(q) s cos(x, branch)");
  add("growth_sum", " sublayer", "1", "growth identity (T15): q of the stream after the sublayer, before norm C");
  add("growth_residual", " sublayer", "1", "growth identity (T15): largest violation over tokens / rounding bound");
  add("largest", " sublayer", "1", "largest |x| of any signal of the sublayer, infinite if one is NaN");
  add("top_magnitudes", " rank", "1", "largest |x| of the stream at all depths");
  add("top_depths", " rank", "1", "depths of top_magnitudes");
  table.family({{"angular_distance", on_record + " depth other_depth", "1",
                 "arccos(cos)/pi between the stream at two depths, mean over at most 32 evenly spaced tokens"}},
               [](const R& values, const Row& row) {
                 if (const Values* found = find(values, "angular_distance")) {
                   dataset::put_square(row, "angular_distance", *found);
                 }
               });
  add("attention_entropy", " layer", "nat",
      "entropy of attention, mean over heads and over tokens that attend to at least two tokens");
  for (const Weight norm : {Weight::norm_a, Weight::norm_b, Weight::norm_c}) {
    const std::string name = text_of(norm);
    add("gain_mean_" + name, " sublayer", "1", "mean over features of the gain of " + name, "gain_mean." + name);
    add("gain_rms_" + name, " sublayer", "1", "root mean square of the gain of " + name, "gain_rms." + name);
  }
  table.family({{"weight_root_mean_square", on_record + " weight layer", "1", "root mean square of the entries"}},
               [](const R& values, const Row& row) {
                 for (const Weight weight : layer_matrices) {
                   const Values* found = find(values, fmt::format("root_mean_square.weight.{}", name_of(weight)));
                   if (found == nullptr) continue;
                   row.at("weight", dataset::weight_index(weight)).put("weight_root_mean_square", *found);
                 }
               });
  table.column_if_any(
      {"margin", on_record + " format", "1", "the format's largest number over the largest |x| of any signal"},
      [](const R& values) -> std::optional<Values> {
        const Values* largest = find(values, "largest");
        if (largest == nullptr) return std::nullopt;
        const double most = *std::ranges::max_element(*largest);
        Values margins;
        for (const NumberFormat& format : number_formats) margins.push_back(format.largest / most);
        return margins;
      });
  return table;
}

void put_curves(const training::RecordedValues& values, const Row& row) {
  const Values* stream = find(values, "second_moment.x_out");
  const Values* modules = find(values, "second_moment.f_out");
  const bool known = stream != nullptr && modules != nullptr && stream->size() > 1;
  const std::size_t branches = known ? modules->size() / (stream->size() - 1) : 1;
  for (std::size_t s = 0; s < statistic_facts.size(); ++s) {
    const auto statistic = static_cast<Statistic>(s);
    const auto put = [&](Signal signal) {
      const Values* found = find(values, fmt::format("{}.{}", name_of(statistic), name_of(signal)));
      if (found != nullptr) dataset::put_curve(row, statistic, signal, "measured", *found, branches);
    };
    for (const Signal signal : stream_signals) put(signal);
    put(Signal::sum);
    if (statistic != Statistic::grad_sq && statistic != Statistic::log_grad_sq) continue;
    for (const Weight weight : layer_matrices) {
      const Values* found = find(values, fmt::format("{}.weight.{}", name_of(statistic), name_of(weight)));
      if (found != nullptr) dataset::put_curve(row, statistic, weight, "measured", *found);
    }
  }
}

/// A run, and the steps at which any run has a record.
struct Run {
  const training::TrainingResult& trained;
  const std::vector<int>& record_steps;
  [[nodiscard]] const training::TrainingHistory& history() const { return trained.history; }
};

Values rates_of(const Run& run) {
  Values rates;
  for (std::size_t s = 1; s <= run.history().loss.size(); ++s) {
    rates.push_back(learning_rate(run.trained.task.train, static_cast<int>(s)));
  }
  return rates;
}

std::vector<std::pair<std::size_t, const training::RecordedValues&>> records_of(const Run& run) {
  std::vector<std::pair<std::size_t, const training::RecordedValues&>> all;
  for (const auto& [step, values] : run.history().records) {
    const auto place = std::ranges::find(run.record_steps, step) - run.record_steps.begin();
    all.emplace_back(static_cast<std::size_t>(place), values);
  }
  return all;
}

dataset::Table<Run> run_table() {
  const std::string on_step = on_run + " step";
  dataset::Table<training::RecordedValues> records = value_table();
  records.family(dataset::curve_columns(on_record, {{"measured", "on the held-out windows, mean over their tokens"}}),
                 put_curves);
  dataset::Table<Run> table;
  table
      .column({"loss", on_step, "nat", "training loss: mean over the batch, before the step"},
              [](const Run& run) { return run.history().loss; })
      .column({"grad_norm", on_step, "nat", "norm of all gradients before clipping"},
              [](const Run& run) { return run.history().grad_norm; })
      .column({"last_layer_grad_norm", on_step, "nat", "norm of the gradients of the last layer's parameters"},
              [](const Run& run) { return run.history().last_layer_norm; })
      .column({"lr", on_step, "1", "learning rate"}, rates_of)
      .column({"diverged_at", on_run, "1",
               "first step at which the loss or the gradient is not finite; otherwise the first step s >= 2 such that "
               "no loss from s on is below the loss of step 1, if the last loss is more than ten times the loss of "
               "step 1, or if at least 20 steps remain and the mean loss of the last 20 is more than 5 % above it"},
              [](const Run& run) { return training::divergence_step(run.history()); })
      .column({"final_loss", on_run, "nat", "mean training loss of the last tenth of the steps"},
              [](const Run& run) { return training::mean_of_last_tenth(run.history(), run.trained.task.train.steps); })
      .column({"spikes", on_run, "1",
               "events in which the logarithm of loss or gradient norm exceeds median + 6 * 1.4826 MAD of the last 128 "
               "steps"},
              [](const Run& run) { return events_of_run(run.history().loss, run.history().grad_norm).size(); });
  return table.rows_at("record", records, records_of);
}

dataset::Table<training::TrainResult> result_table() {
  using P = theory::Prediction;
  dataset::Table<P> theory;
  theory.curve({"variance_predicted", "placement depth", "1",
                "predicted variance of the stream before training, on the held-out windows"},
               {"variance_predicted_stderr", "placement depth", "1", "standard error of variance_predicted"},
               [](const P& p) { return p.profile.find(Statistic::variance, Signal::x_out); });
  dataset::Table<training::TrainResult> table;
  table
      .column_if_any({"loss_floor", "", "nat", "smallest mean loss of any predictor of the corpus, if it is known"},
                     &training::TrainResult::loss_floor)
      .rows("placement", theory, &training::TrainResult::initial);
  return table;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::DimensionSpec> dimensions{{"placement", Type::text, "", "normalization placement (T1)"},
                                                   {"seed", Type::integer, "1", "seed of weights and batches"},
                                                   {"step", Type::integer, "1", "step of the optimizer", true},
                                                   {"record", Type::integer, "1", "steps done"},
                                                   {"format", Type::text, "", "number format"}};
    std::ranges::move(dataset::curve_dimensions(), std::back_inserter(dimensions));
    std::vector<dataset::ColumnSpec> columns = run_table().specs();
    std::ranges::copy(result_table().specs(), std::back_inserter(columns));
    columns.push_back(dataset::placement_settings());
    return dataset::Schema("train", 8, std::move(dimensions), std::move(columns));
  }();
  return schema;
}

dataset::Dataset dataset_of(const training::TrainConfig& config, const training::TrainResult& result) {
  Builder builder(schema());
  std::set<int> recorded;
  std::size_t steps = 0;
  for (const training::TrainingResult& task : result.tasks) {
    steps = std::max(steps, task.history.loss.size());
    for (const auto& [step, values] : task.history.records) recorded.insert(step);
  }
  const std::vector<int> record_steps(recorded.begin(), recorded.end());
  const auto seeds = static_cast<std::size_t>(config.run.seeds);
  builder.count("step", steps, 1);
  builder.put("record", record_steps);
  dataset::put_curve_coordinates(builder, config.stacks(), top_count);
  for (std::size_t f = 0; f < number_formats.size(); ++f) builder.at("format", f).put("format", number_formats[f].name);
  result_table().put(result, builder.row());
  const dataset::Table<Run> runs = run_table();
  for (std::size_t i = 0; i < result.tasks.size(); ++i) {
    const training::TrainingResult& trained = result.tasks[i];
    const StackSpec& spec = trained.task.spec;
    dataset::put_placement(builder, i / seeds, config::placement_label(spec), spec.settings);
    builder.at("seed", i % seeds).put("seed", trained.task.seed);
    runs.put({trained, record_steps}, builder.at("placement", i / seeds).at("seed", i % seeds));
  }
  return builder.finish();
}

}  // namespace periscope::train
