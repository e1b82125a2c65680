#include <algorithm>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/result/curves.h"
#include "experiments/engine/run/regime.h"
#include "experiments/studies/reproduce/averages.h"
#include "experiments/studies/reproduce/dataset_tables.h"
#include "experiments/studies/reproduce/readings.h"
#include "experiments/studies/reproduce/reproduce.h"

namespace periscope::reproduce {
namespace {

using dataset::Type;

dataset::Table<Curve> theory_gradient_table() {
  dataset::Table<Curve> table;
  table.column({"layer_gradient_predicted", "group layer", "nat2", "prediction at initialisation"}, &Curve::value)
      .column({"layer_gradient_predicted_stderr", "group layer", "nat2",
               "its standard error at most: the sum of its matrices'"},
              &Curve::standard_error);
  return table;
}

dataset::Table<theory::Prediction> theory_table() {
  using P = theory::Prediction;
  dataset::Table<P> table;
  table
      .column({"second_moment_predicted", "group depth", "1", "prediction at initialisation"},
              [](const P& p) { return p.profile.find(Statistic::second_moment, Signal::x_out)->value; })
      .column({"second_moment_predicted_stderr", "group depth", "1", "its standard error"},
              [](const P& p) { return p.profile.find(Statistic::second_moment, Signal::x_out)->standard_error; })
      .column({"variance_predicted", "group depth", "1", "prediction at initialisation"},
              [](const P& p) { return p.profile.find(Statistic::variance, Signal::x_out)->value; })
      .part_if_any(theory_gradient_table(), [](const P& p) {
        const std::optional<Curve> gradient = predicted_layer_gradients(p);
        return gradient ? std::vector{*gradient} : std::vector<Curve>();
      });
  return table;
}

/// A group, and what was predicted of it before training.
struct TrainedGroup {
  const GroupRuns& runs;
  const std::vector<int>& steps;
  const theory::Prediction* initial;  ///< null: nothing
};

judge::Estimate mean_final_loss(const TrainedGroup& g) {
  std::vector<double> losses;
  for (const training::TrainedCell& cell : g.runs.cells) losses.push_back(final_loss(cell));
  return judge::mean_over_seeds(losses);
}

std::vector<Run> runs_of(const TrainedGroup& g) {
  std::vector<Run> all;
  for (const training::TrainedCell& cell : g.runs.cells) all.push_back({cell, g.steps});
  return all;
}

std::vector<dataset::ColumnSpec> average_columns() {
  std::vector<dataset::ColumnSpec> all;
  for (const Averaged& a : averaged()) {
    const auto add = [&](const std::string& suffix, const std::string& units, const std::string& meaning) {
      all.push_back({.name = a.name + "_" + suffix,
                     .dimensions = "group record " + a.dimension,
                     .type = Type::real,
                     .units = units,
                     .meaning = meaning});
    };
    add("measured", a.units, a.meaning + (a.geometric ? ": geometric mean over seeds" : ": mean over seeds"));
    add("stderr", a.geometric ? "1" : a.units,
        a.geometric ? "standard error of the mean logarithm" : "standard error of the mean");
  }
  return all;
}

void put_averages(const TrainedGroup& g, const dataset::Builder::Row& row) {
  for (const Averaged& a : averaged()) {
    const std::optional<Curve> curve = average_of(a, g.runs, g.steps);
    if (!curve) continue;
    row.put(a.name + "_measured", curve->value);
    row.put(a.name + "_stderr", curve->standard_error);
  }
}

const dataset::Table<TrainedGroup>& group_table() {
  using G = TrainedGroup;
  static const dataset::Table<G> all = [] {
    dataset::Table<G> table;
    table
        .column({"placement", "group", "", "normalization placement (T1)"},
                [](const G& g) { return config::placement_label(g.runs.group.spec); })
        .column({"study", "group", "", "what the group belongs to"}, [](const G& g) { return g.runs.group.study; })
        .column({"lr", "group", "1", "highest learning rate"}, [](const G& g) { return g.runs.group.train.lr; })
        .column({"weight_decay", "group", "1", "weight decay"},
                [](const G& g) { return g.runs.group.train.weight_decay; })
        .column_if_any(
            {"init_std", "group", "1", "standard deviation of the matrices' entries at initialisation, scheme normal"},
            [](const G& g) {
              const InitSpec& init = g.runs.group.spec.init;
              return init.scheme == InitScheme::normal ? std::optional(init.std) : std::nullopt;
            })
        .column({"final_loss_mean", "group", "nat", "mean over seeds of final_loss"},
                [](const G& g) { return mean_final_loss(g).value; })
        .column({"final_loss_stderr", "group", "nat", "its standard error"},
                [](const G& g) { return mean_final_loss(g).error; })
        .rows("seed", run_table(), runs_of)
        .part(theory_table(),
              [](const G& g) { return g.initial != nullptr && g.initial->refusal.empty() ? g.initial : nullptr; })
        .family(average_columns(), put_averages);
    return table;
  }();
  return all;
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
      .column({"claim_quantity", "claim", "", "the number that is positive if it is so"}, &C::quantity)
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

/// The configuration and the result that the columns of the whole run are filled from.
struct Whole {
  const ReproduceConfig& config;
  const ReproduceResult& result;
};

const dataset::Table<Whole>& whole_table() {
  static const dataset::Table<Whole> all = [] {
    dataset::Table<Whole> table;
    table
        .rows("claim", claim_table(),
              [](const Whole& w) -> const std::vector<judge::SignClaim>& { return w.result.claims; })
        .column_if_any({"loss_floor", "", "nat", "smallest mean loss of any predictor of the corpus, if it is known"},
                       [](const Whole& w) { return w.result.loss_floor; })
        .column({"regime", "", "", "settings that all groups share, unless their names say otherwise"},
                [](const Whole& w) { return stacks::in_one_line(regime_of(w.config)); })
        .column({"quick", "", "1", "1: the short profile"}, [](const Whole& w) { return w.config.quick; });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema = [] {
    std::vector<dataset::ColumnSpec> columns = group_table().specs();
    std::ranges::copy(whole_table().specs(), std::back_inserter(columns));
    std::ranges::copy(dataset::sublayer_labels(), std::back_inserter(columns));
    return dataset::Schema("reproduce", 6,
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
  std::vector<int> steps;
  for (int step = 0; step <= config.train.steps; ++step) {
    if (is_recorded(config.train, step)) steps.push_back(step);
  }
  const auto sublayers = static_cast<std::size_t>(config.base.model.sublayers());
  builder.put("record", steps);
  builder.count("step", static_cast<std::size_t>(config.train.steps), 1);
  builder.count("depth", sublayers + 1);
  builder.count("other_depth", sublayers + 1);
  dataset::put_sublayers(builder, config.base.model);
  builder.count("layer", static_cast<std::size_t>(config.base.model.layers));
  builder.put("law", std::vector(judge::growth_law_names.begin(), judge::growth_law_names.end()));
  whole_table().put({config, result}, builder.row());
  for (int s = 0; s < config.run.seeds; ++s) {
    builder.at("seed", static_cast<std::size_t>(s)).put("seed", config.run.seed + static_cast<std::uint64_t>(s));
  }
  for (std::size_t g = 0; g < result.groups.size(); ++g) {
    const GroupRuns& runs = result.groups[g];
    builder.at("group", g).put("group", runs.group.name);
    const auto initial = result.initial.find(runs.group.name);
    group_table().put({runs, steps, initial == result.initial.end() ? nullptr : &initial->second},
                      builder.at("group", g));
  }
  for (std::size_t c = 0; c < result.claims.size(); ++c) builder.at("claim", c).put("claim", result.claims[c].id);
  return builder.finish();
}

}  // namespace periscope::reproduce
