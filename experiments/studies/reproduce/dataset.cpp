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

/// The record of one step, of every seed that has it: a run that diverged lacks the later ones.
using SeedRecords = std::vector<const RecordedValues*>;

/// A curve of records, averaged over seeds.
struct Averaged {
  std::string name, dimension, units, meaning;
  bool geometric;  ///< mean of logarithms, whose standard error is then given
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
      {"eq4", "depth", "1", "the same by Eq. 4: T15 without its cosine term", true, without_cosine},
      {"layer_gradient", "layer", "nat2", "squared gradient of all matrices of a layer", true, layer_gradients},
      {"growth_branch", "sublayer", "1", "T15: beta^2 s^2", true, recorded("growth_branch")},
      {"growth_cross", "sublayer", "1", "T15: 2 alpha beta sqrt(q) s cos(x, branch)", false, recorded("growth_cross")},
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

/// The steps of a run's records.
std::vector<int> recorded_steps(const TrainSpec& train) {
  std::vector<int> steps;
  for (int step = 0; step <= train.steps; ++step) {
    if (is_recorded(train, step)) steps.push_back(step);
  }
  return steps;
}

/// Curves of every record, averaged over the seeds that have it.
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
      .column(
          {"growth_law", on_run, "",
           "law that describes the variance over depth at the end best, from depth 2 on, where its QAICc is lower by "
           "2 than any other's; no law fits: none to 10 %"},
          judge::likely_laws_in_words)
      .column({"growth_misfit", on_run + " law", "1", "root mean square of ln(variance / law) over depths from 2 on"},
              [](const G& fit) { return mapped(fit.laws, &judge::DepthFit::rms_residual); })
      .column(
          {"growth_effective_points", on_run, "1",
           "effective number of independent depths, from the autocorrelation at lag one of the closest law's errors"},
          &G::effective_points);
  return table;
}

std::optional<judge::GrowthFit> growth_of(const TrainingResult& run) {
  judge::GrowthFit fit = judge::fit_growth(last_record(run).at("variance.x_out"));
  return std::isnan(fit.effective_points) ? std::nullopt : std::optional(std::move(fit));
}

/// The columns of theory at the sizes of a run's trained weights, of its last record.
dataset::Table<TrainingResult> sizes_table() {
  dataset::Table<TrainingResult> table;
  const auto along = [&](const std::string& name, const std::string& meaning) {
    table.column({name, on_run + " depth", "1", meaning},
                 [name](const TrainingResult& run) { return last_record(run).at(name); });
  };
  along("scaled_second_moment",
        "mean square of the stream of random weights with the trained ones' scales, at the end");
  along("scaled_second_moment_stderr", "its standard error");
  along("profiled_second_moment",
        "mean square of the stream of random weights with the trained scale of every row and column (T29; embedding "
        "tables: of the rows in use), at the end");
  along("profiled_second_moment_stderr", "its standard error");
  along("rescaled_second_moment",
        "mean square of the stream of the trained stack with every matrix divided to its root mean square before "
        "training, and gains, biases and alphas from then, at the end");
  for (const GrowthPart& part : growth_parts()) table.column({part.column, on_run, "nat", part.meaning}, part.read);
  return table.column(
      {"growth_alignment_error", on_run, "nat",
       "what random models of these profiles and this width have for growth_from_alignment, root mean square"},
      [](const TrainingResult& run) { return last_record(run).at("profiled_deviation").back(); });
}

dataset::Table<TrainingResult> run_table() {
  dataset::Table<TrainingResult> table;
  const std::string on_step = on_run + " step";
  const auto recorded = [&](const std::string& name, const std::string& units, const std::string& meaning, auto read) {
    table.column({name, on_run + " record", units, meaning}, [read](const TrainingResult& run) {
      std::vector<double> values;  // NaN where the run had ended
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
      .column(
          {"spikes", on_run, "1",
           "events in which the logarithm of loss or gradient norm spikes, for all steps at the rate of those done"},
          spikes)
      .column({"spike", on_step, "1", "1 at the first step of each event that spikes counts, else 0"}, spike_starts)
      .part(growth_table(), growth_of)
      .part(sizes_table(),
            [](const TrainingResult& r) { return last_record(r).contains("scaled_second_moment") ? &r : nullptr; });
  recorded("validation_loss", "nat", "on the held-out windows",
           [](const RecordedValues& record) { return record.at("validation_loss").front(); });
  recorded("top_first", "1", "largest |x| of the stream",
           [](const RecordedValues& record) { return record.at("top_magnitudes").front(); });
  recorded("top_last", "1", "the 100th largest",
           [](const RecordedValues& record) { return record.at("top_magnitudes").back(); });
  recorded("cosine_share", "nat", "ln of the second moment at the top over Eq. 4's", cosine_share);
  return table;
}

/// Squared gradients of all matrices of a layer, predicted, with their standard error at most: the sum of the
/// matrices'. Nothing without prediction.
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
  const std::string words = "prediction at initialisation";
  table
      .curve({"second_moment_predicted", "group depth", "1", words},
             {"second_moment_predicted_stderr", "group depth", "1", "its standard error"},
             [](const P& p) { return p.profile.find(Statistic::second_moment, Signal::x_out); })
      .column({"variance_predicted", "group depth", "1", words},
              [](const P& p) { return p.profile.find(Statistic::variance, Signal::x_out)->value; })
      .curve({"layer_gradient_predicted", "group layer", "nat2", words},
             {"layer_gradient_predicted_stderr", "group layer", "nat2",
              "its standard error at most: the sum of its matrices'"},
             predicted_layer_gradients);
  return table;
}

dataset::Table<GroupRuns> group_table() {
  using G = GroupRuns;
  dataset::Table<G> table;
  table
      .column({"placement", "group", "", "normalization placement (T1)"},
              [](const G& g) { return config::placement_label(g.group.spec); })
      .column({"study", "group", "", "what the group belongs to"}, [](const G& g) { return g.group.study; })
      .column({"lr", "group", "1", "highest learning rate"}, [](const G& g) { return g.group.train.lr; })
      .column({"weight_decay", "group", "1", "weight decay"}, [](const G& g) { return g.group.train.weight_decay; })
      .column_if_any(
          {"init_std", "group", "1", "standard deviation of the matrices' entries at initialisation, scheme normal"},
          [](const G& g) {
            const InitSpec& init = g.group.spec.init;
            return init.scheme == InitScheme::normal ? std::optional(init.std) : std::nullopt;
          })
      .curve({"final_loss_mean", "group", "nat", "mean over seeds of final_loss"},
             {"final_loss_stderr", "group", "nat", "its standard error"},
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
      .column({"claim_statement", "claim", "", "what the source says, in our words"}, &C::statement)
      .column({"claim_quantity", "claim", "",
               "the number that is positive if it is so; unless it says how, groups enter as first - second - (third - "
               "fourth)"},
              &C::quantity)
      .column({"claim_verdict", "claim", "", "holds, fails, not-shown, not-testable-here or not-run"},
              [](const C& c) { return judge::name_of(c.verdict); });
  tested("claim_mean", "mean over seeds of that number", [](const C& c) { return c.mean.value; });
  tested("claim_stderr", "its standard error", [](const C& c) { return c.mean.error; });
  tested("claim_p", "chance of such values if the number were 0 and not positive, of this claim alone", &C::p);
  tested("claim_holm", "chance that any of the run's tested claims would show so much, in either direction: Holm's p",
         &C::holm);
  tested("claim_detectable",
         "detectable error (T22): quantiles of Student's law for level and 95 % power, times claim_stderr",
         &C::detectable);
  table
      .column({"claim_regime", "claim", "",
               "settings of the runs that it was tested on, from what to what where they differ"},
              [](const C& c) { return stacks::in_one_line(c.regime); })
      .column({"claim_reason", "claim", "", "why it was not run or cannot be tested, or a remark"}, &C::reason)
      .column_if_any({"claim_value", "claim seed", "1", "that number of every seed"},
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
                    {"regime", "", "", "settings that all groups share, unless their names say otherwise", Type::text},
                    {"quick", "", "1", "1: the short profile", Type::boolean}});
    std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(columns));
    return dataset::Schema("reproduce", 8,
                           {{"group", Type::text, "", "what was trained, and how"},
                            {"seed", Type::integer, "1", "seed of weights and batches"},
                            {"step", Type::integer, "1", "step of the optimizer", true},
                            {"record", Type::integer, "1", "steps done"},
                            {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
                            {"other_depth", Type::integer, "1", "sublayers passed, second stream of a pair"},
                            {"sublayer", Type::integer, "1", "sublayer, from 0, in the order of the stream"},
                            {"layer", Type::integer, "1", "layer, attention and MLP, from 0"},
                            {"law", Type::text, "", "law of growth over depth"},
                            {"claim", Type::text, "", "name in the ledger of claims"}},
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
