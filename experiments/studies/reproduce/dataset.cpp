#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/result/curves.h"
#include "experiments/engine/result/table.h"
#include "experiments/engine/run/regime.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "sim/base/mapped.h"

namespace periscope::reproduce {
namespace {

using dataset::Type;

const std::string on_run = "group seed";

/// The records of one step by seed. A diverged run has no later records.
using SeedRecords = std::vector<const RecordedValues*>;

/// A curve of the records, averaged over seeds.
struct Averaged {
  std::string name, dimension, units, meaning;
  bool geometric;  ///< geometric mean, with the standard error of the mean logarithm
  std::function<Values(const RecordedValues&)> read;
};

std::vector<Averaged> averaged() {
  const auto recorded = [](std::string name) {
    return [name = std::move(name)](const RecordedValues& record) {
      const auto it = record.find(name);
      return it == record.end() ? Values() : it->second;
    };
  };
  return {
      {"variance", "depth", "1", "variance over features of the stream", true, recorded("variance.x_out")},
      {"second_moment", "depth", "1", "mean square of the stream", true, recorded("second_moment.x_out")},
      {"eq4", "depth", "1", "mean square of the stream by the paper's Eq. 4 (no cosine term)", true, without_cosine},
      {"layer_gradient", "layer", "nat2", "squared gradient of all matrices of a layer", true, layer_gradients},
      {"growth_branch", "sublayer", "1", "T15: beta^2 s^2", true, recorded("growth_branch")},
      {"growth_cross", "sublayer", "1", "2 alpha beta sqrt(q) s cos(x, branch) of T15", false,
       recorded("growth_cross")},
      {"gain_b", "sublayer", "1", "mean over features of the output norm's gain", false, recorded("gain_mean.norm_b")},
      {"attention_entropy", "layer", "nat", "entropy of attention", false, recorded("attention_entropy")},
      {"angular_distance", "depth other_depth", "1",
       "arccos(cos)/pi between the stream at two depths, over at most 32 tokens", false, recorded("angular_distance")}};
}

std::optional<Curve> average_of(const Averaged& curve, const SeedRecords& records) {
  judge::SeedRows rows;
  for (const RecordedValues* record : records) {
    Values values = curve.read(*record);
    if (values.empty()) continue;
    for (double& value : values) value = curve.geometric ? std::log(value) : value;
    rows.add(std::move(values));
  }
  if (rows.seeds() == 0) return std::nullopt;
  Curve mean = rows.curve();
  for (double& value : mean.value) value = curve.geometric ? std::exp(value) : value;
  return mean;
}

/// Returns the steps that have a record.
std::vector<int> recorded_steps(const TrainSpec& train) {
  std::vector<int> steps;
  for (int step = 0; step <= train.steps; ++step) {
    if (is_recorded(train, step)) steps.push_back(step);
  }
  return steps;
}

/// Columns of the curves, averaged over the seeds that have the record.
dataset::Table<SeedRecords> averages_table() {
  dataset::Table<SeedRecords> table;
  for (const Averaged& a : averaged()) {
    const std::string on = "group record " + a.dimension;
    table.curve(
        {a.name + "_measured", on, a.units, a.meaning + (a.geometric ? ": geometric mean" : ": mean") + " over seeds"},
        {a.name + "_stderr", on, a.geometric ? "1" : a.units,
         a.geometric ? "standard error of the mean logarithm" : "standard error of the mean"},
        [a](const SeedRecords& seeds) { return average_of(a, seeds); });
  }
  return table;
}

std::vector<SeedRecords> records_of(const GroupRuns& runs) {
  std::vector<SeedRecords> all;
  for (const int step : recorded_steps(runs.tasks.front().task.train)) {
    SeedRecords& seeds = all.emplace_back();
    for (const TrainingResult& task : runs.tasks) {
      const auto it = task.history.records.find(step);
      if (it != task.history.records.end()) seeds.push_back(&it->second);
    }
  }
  return all;
}

dataset::Table<judge::GrowthFit> growth_table() {
  using G = judge::GrowthFit;
  dataset::Table<G> table;
  table
      .column({"growth_law", on_run, "",
               "law with the best fit to the final variance over depth, from depth 2 on, by a QAICc at least 2 below "
               "any other's; no law fits: every misfit exceeds 10 %"},
              judge::likely_laws_in_words)
      .column({"growth_misfit", on_run + " law", "1", "root mean square of ln(variance / law) over depths from 2 on"},
              [](const G& fit) { return mapped(fit.laws, &judge::DepthFit::rms_residual); })
      .column({"growth_effective_points", on_run, "1",
               "effective number of independent depths, from the lag-one autocorrelation of the best law's residuals"},
              &G::effective_points);
  return table;
}

std::optional<judge::GrowthFit> growth_of(const TrainingResult& run) {
  judge::GrowthFit fit = judge::fit_growth(last_record(run).at("variance.x_out"));
  return std::isnan(fit.effective_points) ? std::nullopt : std::optional(std::move(fit));
}

/// Columns of the theory at the trained weights' sizes, from a run's last record.
dataset::Table<TrainingResult> sizes_table() {
  dataset::Table<TrainingResult> table;
  const auto along = [&](const std::string& name, const std::string& meaning) {
    table.column({name, on_run + " depth", "1", meaning},
                 [name](const TrainingResult& run) { return last_record(run).at(name); });
  };
  along("scaled_second_moment",
        "mean square of the stream of random weights with the scales of the trained weights, at the end");
  along("scaled_second_moment_stderr", "standard error of scaled_second_moment");
  along("profiled_second_moment",
        "mean square of the stream of random weights with the trained scale of every row and column (T29; embedding "
        "tables: of the rows in use), at the end");
  along("profiled_second_moment_stderr", "standard error of profiled_second_moment");
  along("rescaled_second_moment",
        "mean square of the stream at the end of training, with every matrix rescaled to the root mean square that it "
        "had before training; gains, biases and alphas are those before training");
  for (const GrowthPart& part : growth_parts()) table.column({part.column, on_run, "nat", part.meaning}, part.read);
  return table.column(
      {"growth_alignment_error", on_run, "nat",
       "root mean square of growth_from_alignment over random models with these profiles and this width"},
      [](const TrainingResult& run) { return last_record(run).at("profiled_deviation").back(); });
}

dataset::Table<TrainingResult> run_table() {
  dataset::Table<TrainingResult> table;
  const std::string on_step = on_run + " step";
  const auto recorded = [&](const std::string& name, const std::string& units, const std::string& meaning, auto read) {
    table.column({name, on_run + " record", units, meaning}, [read](const TrainingResult& run) {
      std::vector<double> values;  // NaN after the end of the run
      for (const int step : recorded_steps(run.task.train)) {
        const auto it = run.history.records.find(step);
        values.push_back(it == run.history.records.end() ? std::numeric_limits<double>::quiet_NaN() : read(it->second));
      }
      return values;
    });
  };
  table.column({"loss", on_step, "nat", "training loss"}, [](const TrainingResult& r) { return r.history.loss; })
      .column({"grad_norm", on_step, "nat", "norm of all gradients before clipping"},
              [](const TrainingResult& r) { return r.history.grad_norm; })
      .column({"last_layer_grad_norm", on_step, "nat", "norm of the last layer's gradients"},
              [](const TrainingResult& r) { return r.history.last_layer_norm; })
      .column({"final_loss", on_run, "nat", "mean training loss of the last tenth of the steps; ln V if not finite"},
              final_loss)
      .column({"diverged_at", on_run, "1", "step at which a run diverged"},
              [](const TrainingResult& r) { return training::divergence_step(r.history); })
      .column({"spikes", on_run, "1",
               "events in which the logarithm of loss or gradient norm spikes, extrapolated to all steps"},
              spikes)
      .column({"spike", on_step, "1", "1 at the first step of each event counted by the variable spikes, else 0"},
              spike_starts)
      .part(growth_table(), growth_of)
      .part(sizes_table(),
            [](const TrainingResult& r) { return last_record(r).contains("scaled_second_moment") ? &r : nullptr; });
  recorded("validation_loss", "nat", "mean loss on the held-out windows",
           [](const RecordedValues& record) { return record.at("validation_loss").front(); });
  recorded("top_first", "1", "largest |x| of the stream",
           [](const RecordedValues& record) { return record.at("top_magnitudes").front(); });
  recorded("top_last", "1", "100th largest |x| of the stream",
           [](const RecordedValues& record) { return record.at("top_magnitudes").back(); });
  recorded("cosine_share", "nat", "ln(second moment at the top / its value by the paper's Eq. 4)", cosine_share);
  return table;
}

/// Returns the predicted squared gradients, summed over the matrices of each layer; nullopt without a prediction. The
/// standard error is an upper bound: the sum of the matrices' errors.
std::optional<Curve> predicted_layer_gradients(const theory::Prediction& prediction) {
  Curve all;
  for (const Weight weight : layer_matrices) {
    const Curve* curve = prediction.profile.find(Statistic::grad_sq, weight);
    if (curve == nullptr) continue;
    for (const auto part : {&Curve::value, &Curve::standard_error}) {
      (all.*part).resize(curve->value.size(), 0.0);
      std::ranges::transform(all.*part, curve->*part, (all.*part).begin(), std::plus());
    }
  }
  return all.value.empty() ? std::nullopt : std::optional(std::move(all));
}

dataset::Table<theory::Prediction> theory_table() {
  using P = theory::Prediction;
  dataset::Table<P> table;
  table
      .curve({"second_moment_predicted", "group depth", "1", "predicted mean square of the stream at initialisation"},
             {"second_moment_predicted_stderr", "group depth", "1", "standard error of second_moment_predicted"},
             [](const P& p) { return p.profile.find(Statistic::second_moment, Signal::x_out); })
      .column({"variance_predicted", "group depth", "1", "predicted variance of the stream at initialisation"},
              [](const P& p) { return p.profile.find(Statistic::variance, Signal::x_out)->value; })
      .curve({"layer_gradient_predicted", "group layer", "nat2",
              "predicted squared gradient of a layer at initialisation"},
             {"layer_gradient_predicted_stderr", "group layer", "nat2",
              "upper bound on the standard error of layer_gradient_predicted: sum over its matrices"},
             predicted_layer_gradients);
  return table;
}

dataset::Table<GroupRuns> group_table() {
  using G = GroupRuns;
  dataset::Table<G> table;
  table
      .column({"placement", "group", "", "normalization placement (T1)"},
              [](const G& g) { return config::placement_label(g.group.spec); })
      .column({"study", "group", "", "study that the group belongs to"}, [](const G& g) { return g.group.study; })
      .column({"lr", "group", "1", "highest learning rate"}, [](const G& g) { return g.group.train.lr; })
      .column({"weight_decay", "group", "1", "weight decay"}, [](const G& g) { return g.group.train.weight_decay; })
      .column_if_any(
          {"init_std", "group", "1", "standard deviation of the matrices' entries at initialisation, scheme normal"},
          [](const G& g) {
            const InitSpec& init = g.group.spec.init;
            return init.scheme == InitScheme::normal ? std::optional(init.std) : std::nullopt;
          })
      .curve({"final_loss_mean", "group", "nat", "mean over seeds of final_loss"},
             {"final_loss_stderr", "group", "nat", "standard error of final_loss_mean"},
             [](const G& g) {
               return std::optional(judge::curve_of({judge::mean_over_seeds(mapped(g.tasks, final_loss))}));
             })
      .rows("seed", run_table(), &G::tasks)
      .part(theory_table(),
            [](const G& g) { return g.initial && g.initial->unsupported.empty() ? &*g.initial : nullptr; });
  return table.rows("record", averages_table(), records_of);
}

dataset::Table<judge::SignClaim> claim_table() {
  using C = judge::SignClaim;
  dataset::Table<C> table;
  const auto tested = [&](const std::string& name, const std::string& meaning, auto value) {
    table.column_if_any({name, "claim", "1", meaning}, [value](const C& c) {
      return c.values.empty() ? std::nullopt : std::optional<double>(std::invoke(value, c));
    });
  };
  table.column({"claim_exhibit", "claim", "", "figure or table"}, &C::exhibit)
      .column({"claim_statement", "claim", "", "claim of the source, paraphrased"}, &C::statement)
      .column({"claim_quantity", "claim", "",
               "number that is positive if the claim is true; groups enter as first - second - (third - fourth) unless "
               "stated otherwise"},
              &C::quantity)
      .column({"claim_verdict", "claim", "", "holds, fails, not-shown, not-testable-here or not-run"},
              [](const C& c) { return judge::name_of(c.verdict); });
  tested("claim_mean", "mean over seeds of claim_quantity", [](const C& c) { return c.mean.value; });
  tested("claim_stderr", "standard error of claim_mean", [](const C& c) { return c.mean.error; });
  tested("claim_p", "one-sided p-value for a true mean of 0, for this claim alone", &C::p);
  tested("claim_holm", "two-sided p-value with Holm's correction for the run's tested claims", &C::holm);
  tested("claim_detectable",
         "detectable error (T22): sum of the Student t quantiles for the level and for 95 % power, times claim_stderr",
         &C::detectable);
  table
      .column({"claim_regime", "claim", "", "settings of the tested runs, with the range of those that differ"},
              [](const C& c) { return stacks::in_one_line(c.regime); })
      .column({"claim_reason", "claim", "", "why the claim was not run or cannot be tested, or a remark"}, &C::reason)
      .column_if_any({"claim_value", "claim seed", "1", "claim_quantity of every seed"},
                     [](const C& c) { return c.values.empty() ? std::nullopt : std::optional(c.values); });
  return table;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::ColumnSpec> columns = group_table().specs();
    std::ranges::copy(claim_table().specs(), std::back_inserter(columns));
    columns.insert(columns.end(),
                   {{"loss_floor", "", "nat", "smallest mean loss of any predictor of the corpus, if it is known"},
                    {"regime", "", "", "settings that all groups share, except those in their names", Type::text},
                    {"quick", "", "1", "1: the short profile", Type::boolean}});
    std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(columns));
    return dataset::Schema("reproduce", 8,
                           {{"group", Type::text, "", "placement, and difference from the shared settings"},
                            {"seed", Type::integer, "1", "seed of weights and batches"},
                            {"step", Type::integer, "1", "step of the optimizer", true},
                            {"record", Type::integer, "1", "steps done"},
                            {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                            {"other_depth", Type::integer, "1", "sublayers passed, second stream of a pair"},
                            {"sublayer", Type::integer, "1", "sublayer, from 0, in the order of the stream"},
                            {"layer", Type::integer, "1", "layer, attention and MLP, from 0"},
                            {"law", Type::text, "", "law of growth over depth"},
                            {"claim", Type::text, "", "id of the claim"}},
                           std::move(columns));
  }();
  return schema;
}

dataset::Dataset dataset_of(const ReproduceConfig& config, const ReproduceResult& result) {
  dataset::Builder builder(schema());
  const auto sublayers = static_cast<std::size_t>(config.base.model.sublayers());
  builder.put("record", recorded_steps(config.train));
  builder.count("step", static_cast<std::size_t>(config.train.steps), 1);
  builder.count("depth", sublayers + 1);
  builder.count("other_depth", sublayers + 1);
  dataset::put_sublayers(builder, config.base.model);
  builder.count("layer", static_cast<std::size_t>(config.base.model.layers));
  builder.put("law", std::vector(judge::growth_law_names.begin(), judge::growth_law_names.end()));
  if (result.loss_floor) builder.put("loss_floor", *result.loss_floor);
  builder.put("regime", stacks::in_one_line(regime_of(config)));
  builder.put("quick", config.quick);
  for (int s = 0; s < config.run.seeds; ++s) {
    builder.at("seed", static_cast<std::size_t>(s)).put("seed", config.run.seed + static_cast<std::uint64_t>(s));
  }
  const dataset::Table<GroupRuns> groups = group_table();
  for (std::size_t g = 0; g < result.groups.size(); ++g) {
    builder.at("group", g).put("group", result.groups[g].group.name);
    groups.put(result.groups[g], builder.at("group", g));
  }
  const dataset::Table<judge::SignClaim> claims = claim_table();
  for (std::size_t c = 0; c < result.claims.size(); ++c) {
    builder.at("claim", c).put("claim", result.claims[c].id);
    claims.put(result.claims[c], builder.at("claim", c));
  }
  return builder.finish();
}

}  // namespace periscope::reproduce
