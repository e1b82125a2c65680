#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/curves.h"
#include "experiments/engine/run/cost.h"
#include "experiments/studies/propagate/propagate.h"
#include "experiments/studies/propagate/summary.h"
#include "sim/base/mapped.h"

namespace periscope::propagate {
namespace {

using dataset::Builder;
using dataset::text_of;
using dataset::Type;
using Row = Builder::Row;

const std::string on_stack = "input placement";

bool is_contrast(const judge::Test& test) { return !test.contrast.empty(); }

/// The result of one stack, and the options of its run.
struct Stack {
  const stacks::StackResult& result;
  const config::RunOptions& run;

  [[nodiscard]] const Profile* measured() const { return result.measurement ? &result.measurement->profile : nullptr; }
  [[nodiscard]] const Profile& predicted() const { return result.prediction.profile; }
};

std::vector<double> z_scores(const Curve& measured, const Curve& predicted) {
  std::vector<double> z;
  for (std::size_t i = 0; i < measured.value.size(); ++i) {
    z.push_back(judge::Test{.measured = judge::entry(measured, i), .predicted = judge::entry(predicted, i)}.z());
  }
  return z;
}

/// Stores all versions of a curve that is measured, predicted or both. A missing version is NaN.
void put_versions(const Stack& s, const Row& row, Statistic statistic, CurvePlace at) {
  const auto put = [&](const std::string& version, const std::vector<double>& values) {
    dataset::put_curve(row, statistic, at, version, values, dataset::branches_of(s.result.spec.model));
  };
  const Curve* measured = s.measured() == nullptr ? nullptr : s.measured()->find(statistic, at);
  const Curve* predicted = s.predicted().find(statistic, at);
  const std::vector<double> nothing((measured == nullptr ? predicted : measured)->value.size(), std::nan(""));
  if (s.measured() != nullptr) {
    put("measured", measured == nullptr ? nothing : measured->value);
    put("stderr", measured == nullptr ? nothing : measured->standard_error);
  }
  put("predicted", predicted == nullptr ? nothing : predicted->value);
  put("predicted_stderr", predicted == nullptr ? nothing : predicted->standard_error);
  const Curve* limit = s.result.prediction.limit.find(statistic, at);
  if (s.result.prediction.exact_at_width_for(statistic, at) && limit != nullptr) put("predicted_limit", limit->value);
  // A few large values dominate the mean of a squared gradient, so only its logarithm has a z-score.
  const bool has_z = measured != nullptr && predicted != nullptr && statistic != Statistic::grad_sq;
  if (has_z) put("z", z_scores(*measured, *predicted));
}

void put_curves(const Stack& s, const Row& row) {
  std::set<std::pair<Statistic, CurvePlace>> all;
  for (const Profile* profile : {s.measured(), &s.predicted()}) {
    if (profile == nullptr) continue;
    for (const auto& item : profile->curves) all.insert(item.first);
  }
  for (const auto& [statistic, place] : all) put_versions(s, row, statistic, place);
}

std::vector<dataset::ColumnSpec> top_columns() {
  const std::string meaning = "largest |x| over all tokens and seeds";
  return {{"top_magnitudes", on_stack + " depth rank", "1", meaning + ", of the stream"},
          {"site_top_magnitudes", on_stack + " site sublayer rank", "1", meaning}};
}

void put_top_magnitudes(const Stack& s, const Row& row) {
  if (!s.result.measurement) return;
  const std::size_t branches = dataset::branches_of(s.result.spec.model);
  for (const auto& [signal, sublayers] : s.result.measurement->top) {
    const Row at = dataset::curve_row(row, signal);
    for (std::size_t l = 0; l < sublayers.size(); ++l) {
      if (signal == Signal::x_out) {
        at.at("depth", l / branches + 1).put("top_magnitudes", sublayers[l]);
      } else if (!runs_over_depth(signal)) {
        at.at("sublayer", l).put("site_top_magnitudes", sublayers[l]);
      }
    }
  }
}

/// Statistics of the stream that are stored per seed; gradients by their logarithm, which verdicts compare.
constexpr std::array statistics_per_seed{Statistic::second_moment, Statistic::variance, Statistic::log_grad_sq};

std::vector<dataset::ColumnSpec> seed_columns() {
  std::vector<dataset::ColumnSpec> all;
  for (const Statistic s : statistics_per_seed) {
    all.push_back({text_of(s) + "_per_seed", on_stack + " seed depth", std::string(units_of(s)),
                   fmt::format("{} of the stream, measured, per seed", name_of(s))});
  }
  return all;
}

void put_seeds(const Stack& s, const Row& row) {
  if (!s.result.measurement) return;
  std::size_t i = 0;
  for (const Profile& seed : s.result.measurement->per_seed) {
    const Row at = row.at("seed", i++);
    for (const Statistic statistic : statistics_per_seed) {
      const Curve* curve = seed.find(statistic, Signal::x_out);
      if (curve != nullptr) at.put(text_of(statistic) + "_per_seed", curve->value);
    }
  }
}

dataset::ColumnSpec angular_distance(const std::string& version, const std::string& words) {
  return {"angular_distance_" + version, on_stack + " depth other_depth", "1",
          "angular distance arccos(cos)/pi between the stream at two depths, measured over at most 32 evenly spaced "
          "tokens: " +
              words};
}

using Prediction = theory::Prediction;

dataset::Table<Prediction> theory_table() {
  dataset::Table<Prediction> table;
  table
      .column({"finite_width", on_stack + " depth", "1", "finite-width factor w of the tolerated bias c*w (T19)"},
              &Prediction::finite_width)
      .column({"theory_replicates", on_stack, "1", "number of replicates used for the prediction"},
              &Prediction::replicates)
      .column_if_any({"theory_finite_width_replicates", on_stack, "1", "replicates of the finite-width chain (T25)"},
                     [](const Prediction& p) {
                       return p.exact_at_width ? std::optional(p.finite_width_replicates) : std::nullopt;
                     })
      .column_if_any({"theory_left_out", on_stack, "",
                      "what limits the prediction: parts that cost more than the measurement or are unsupported"},
                     [](const Prediction& p) { return p.left_out.empty() ? std::nullopt : std::optional(p.left_out); })
      .column({"theory_unsupported", on_stack, "", "why there is no prediction"}, &Prediction::unsupported)
      .column({"theory_gradient_unsupported", on_stack, "", "why gradients are not predicted"},
              &Prediction::gradient_unsupported)
      .column({"theory_imprecise", on_stack, "",
               "predicted gradients and score shares whose standard error exceeds theory.gradient_tolerance"},
              [](const Prediction& p) { return fmt::format("{}", fmt::join(judge::imprecise_names(p), "; ")); })
      .family({angular_distance("predicted", "prediction")}, [](const Prediction& p, const Row& row) {
        dataset::put_square(row, "angular_distance_predicted", p.profile.angular_distance);
      });
  return table;
}

dataset::Table<judge::Measurement> measurement_table() {
  dataset::Table<judge::Measurement> table;
  table
      .family({angular_distance("measured", "mean over seeds")},
              [](const judge::Measurement& m, const Row& row) {
                dataset::put_square(row, "angular_distance_measured", m.profile.angular_distance);
              })
      .column({"diverged_seeds", on_stack, "1", "number of seeds whose stream is not finite"},
              &judge::Measurement::diverged_seeds);
  return table;
}

/// Returns the detectable error (T22) of the stream's second moment at every depth.
std::vector<double> second_moment_power(const judge::StackVerdict& v) {
  std::vector<double> power;
  for (const judge::Test& test : v.tests) {
    const bool counts = test.statistic == Statistic::second_moment && test.signal == Signal::x_out && !test.weight;
    if (!counts || is_contrast(test)) continue;
    power.resize(static_cast<std::size_t>(test.index) + 1, std::nan(""));
    power.back() = test.detectable;
  }
  return power;
}

std::vector<judge::Test> contrasts_of(const judge::StackVerdict& v) {
  std::vector<judge::Test> all;
  std::ranges::copy_if(v.tests, std::back_inserter(all), is_contrast);
  return all;
}

dataset::Table<judge::StackVerdict> verdict_table() {
  const std::string on_contrast = on_stack + " contrast";
  dataset::Table<judge::Test> contrasts =
      judge::test_columns("contrast", on_contrast, "1", "contrast over depth of the deviation from theory");
  contrasts.column({"contrast_name", on_contrast, "", "contrast over depth"}, &judge::Test::name);
  dataset::Table<judge::StackVerdict> tests;
  tests
      .column(
          {"second_moment_power", on_stack + " depth", "1", "second_moment of the stream: " + judge::detectable_words},
          second_moment_power)
      .rows("contrast", contrasts, contrasts_of);
  return judge::verdict_columns("", on_stack, "verdict on the theory (T19)")
      .part(tests, [](const judge::StackVerdict& v) { return v.worst < 0 ? nullptr : &v; });
}

std::vector<dataset::ColumnSpec> curves() {
  return dataset::curve_columns(
      on_stack,
      {{"measured", "mean over seeds"},
       {"stderr", "standard error of the mean over seeds"},
       {"predicted", "prediction"},
       {"predicted_stderr", "standard error of the prediction, due to the sampling of attention patterns"},
       {"predicted_limit",
        "prediction in the infinite-width limit, present if the main prediction is for the stack's own width (T25)"},
       {"z", "measured - predicted in combined standard errors", "1"}});
}

std::optional<Summary> summary_if_any(const Profile* profile) {
  return profile == nullptr || profile->curves.empty() ? std::nullopt : std::optional(summary_of(*profile));
}

/// All columns of a stack.
dataset::Table<Stack> table() {
  dataset::Table<Stack> t;
  const auto measurement = [](const Stack& s) { return s.result.measurement ? &*s.result.measurement : nullptr; };
  t.family(curves(), put_curves)
      .family(seed_columns(), put_seeds)
      .column_if_any({"weights", on_stack, "", "how random matrices were drawn: dense, or matrix-free (T21)"},
                     [](const Stack& s) {
                       return s.measured() != nullptr ? std::optional(stacks::weights_used(s.result.spec, s.run))
                                                      : std::nullopt;
                     })
      .part(theory_table(), [](const Stack& s) { return &s.result.prediction; })
      .part(measurement_table(), measurement)
      .part(summary_table("predicted"), [](const Stack& s) { return summary_if_any(&s.predicted()); })
      .part(summary_table("measured"), [](const Stack& s) { return summary_if_any(s.measured()); })
      .family(top_columns(), put_top_magnitudes)
      .part(verdict_table(), [](const Stack& s) { return s.measured() != nullptr ? &s.result.judged : nullptr; });
  return t;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema declared = [] {
    std::vector<dataset::DimensionSpec> dimensions{
        {"input", Type::text, "", "kind of input"},
        {"placement", Type::text, "", "normalization placement (T1)"},
        {"seed", Type::integer, "1",
         "seed of weights and input; if run.paired = false, each stack adds its own offset"}};
    std::ranges::move(dataset::curve_dimensions(), std::back_inserter(dimensions));
    dimensions.push_back({"format", Type::text, "", "number format"});
    dimensions.push_back({"contrast", Type::integer, "1", "index of the contrast, named in contrast_name"});
    std::vector<dataset::ColumnSpec> columns = table().specs();
    columns.push_back(dataset::placement_settings());
    return dataset::Schema("stack", 6, std::move(dimensions), std::move(columns));
  }();
  return declared;
}

dataset::Dataset dataset_of(const config::Config& config, const std::vector<stacks::StackResult>& results) {
  Builder builder(schema());
  const dataset::Table<Stack> columns = table();
  dataset::put_curve_coordinates(builder, config.stacks(), top_count);
  builder.put("format", mapped(number_formats, &NumberFormat::name));
  if (results.front().measurement) {
    builder.count("seed", static_cast<std::size_t>(config.run.seeds), static_cast<std::int64_t>(config.run.seed));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const stacks::StackResult& r = results[i];
    const std::size_t input = i / config.stacks_per_input();
    const std::size_t placement = i % config.stacks_per_input();
    builder.at("input", input).put("input", input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
    dataset::put_placement(builder, placement, config::placement_label(r.spec), r.spec.settings);
    builder.count("contrast", contrasts_of(r.judged).size());
    columns.put({r, config.run}, builder.at("input", input).at("placement", placement));
  }
  return builder.finish();
}

}  // namespace periscope::propagate
