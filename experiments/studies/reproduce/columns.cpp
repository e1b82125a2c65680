#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "experiments/studies/reproduce/depth_fit.h"
#include "experiments/studies/reproduce/readings.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "sim/measure/running_moments.h"

namespace periscope::reproduce {
namespace {

using Json = Columns::Json;
using Values = std::vector<double>;
using train::RecordedValues;

constexpr double missing = std::numeric_limits<double>::quiet_NaN();

/// A curve that figures draw: of every record of a run, averaged over seeds.
struct Averaged {
  std::string name;
  std::string dimension;
  std::string units;
  std::string meaning;
  bool geometric;  ///< mean of logarithms, whose standard error is then given
  std::function<Values(const RecordedValues&)> values;
};

const std::vector<Averaged>& averaged() {
  const auto recorded = [](std::string name) {
    return [name = std::move(name)](const RecordedValues& record) {
      const auto it = record.find(name);
      return it == record.end() ? Values() : it->second;
    };
  };
  static const std::vector<Averaged> all{
      {"variance", "depth", "1", "variance over features of the stream", true, recorded("variance.x_out")},
      {"second_moment", "depth", "1", "mean square of the stream", true, recorded("second_moment.x_out")},
      {"eq4", "depth", "1", "the same by Eq. 4: T15 without its cosine term", true, without_cosine},
      {"layer_gradient", "layer", "nat2", "squared gradient of all matrices of a layer", true, layer_gradients},
      {"growth_branch", "sublayer", "1", "T15: beta^2 s^2", true, recorded("growth_branch")},
      {"growth_cross", "sublayer", "1", "T15: 2 alpha beta sqrt(q) s cos(x, branch)", false, recorded("growth_cross")},
      {"gain_b", "sublayer", "1", "mean over features of the output norm's gain", false, recorded("gain_mean.norm_b")},
      {"attention_entropy", "layer", "nat", "entropy of attention", false, recorded("attention_entropy")},
      {"angular_distance", "depth other_depth", "1", "arccos(cos)/pi between the stream at two depths", false,
       recorded("angular_distance")}};
  return all;
}

std::vector<ColumnSpec> all_columns() {
  const std::string group = "groups/[group]/";
  const std::string seeds = group + "seeds/[seed]/";
  std::vector<ColumnSpec> all{
      {"placement", "group", "", "normalization placement (T1)", group + "placement"},
      {"study", "group", "", "what the group belongs to", group + "study"},
      {"lr", "group", "1", "highest learning rate", group + "lr"},
      {"weight_decay", "group", "1", "weight decay", group + "weight_decay"},
      {"init_std", "group", "1", "standard deviation of the matrices' entries at initialisation, scheme normal",
       group + "init_std"},
      {"final_loss_mean", "group", "nat", "mean over seeds of final_loss", group + "final_loss/mean"},
      {"final_loss_stderr", "group", "nat", "its standard error", group + "final_loss/stderr"},
      {"loss", "group seed step", "nat", "training loss", seeds + "loss"},
      {"grad_norm", "group seed step", "nat", "norm of all gradients before clipping", seeds + "grad_norm"},
      {"last_layer_grad_norm", "group seed step", "nat", "norm of the last layer's gradients",
       seeds + "last_layer_grad_norm"},
      {"final_loss", "group seed", "nat", "mean training loss of the last tenth of the steps; ln V if not finite",
       seeds + "final_loss"},
      {"diverged_at", "group seed", "1", "step at which a run diverged", seeds + "diverged_at"},
      {"spikes", "group seed", "1",
       "events in which the logarithm of loss or gradient norm spikes, for all steps at the rate of those done",
       seeds + "spikes"},
      {"growth_law", "group seed", "",
       "law that describes the variance over depth at the end best, from depth 2 on; no law fits: none to 10 %",
       seeds + "growth_law"},
      {"growth_criterion", "group seed law", "1", "QAICc of a law of growth over depth, with growth_effective_points",
       seeds + "growth_criterion"},
      {"growth_misfit", "group seed law", "1", "root mean square of ln(variance / law) over depths from 2 on",
       seeds + "growth_misfit"},
      {"growth_effective_points", "group seed", "1",
       "independent points that tell as much as these depths, by the closest law's autocorrelation at lag one",
       seeds + "growth_effective_points"},
      {"scaled_second_moment", "group seed depth", "1",
       "mean square of the stream of random weights with the trained ones' scales, at the end",
       seeds + "scaled/second_moment"},
      {"scaled_second_moment_stderr", "group seed depth", "1", "its standard error",
       seeds + "scaled/second_moment_stderr"},
      {"growth_from_scales", "group seed", "nat",
       "ln of that at the top over the second moment before training: growth that scales explain",
       seeds + "scaled/growth_from_scales"},
      {"profiled_second_moment", "group seed depth", "1",
       "mean square of the stream of random weights with the size of every trained row and column (T29), at the end",
       seeds + "scaled/profiled_second_moment"},
      {"profiled_second_moment_stderr", "group seed depth", "1", "its standard error",
       seeds + "scaled/profiled_second_moment_stderr"},
      {"growth_from_sizes_inside", "group seed", "nat",
       "ln of that over scaled_second_moment, at the top: growth that sizes inside matrices explain",
       seeds + "scaled/growth_from_sizes_inside"},
      {"growth_from_alignment", "group seed", "nat",
       "ln of the measured one over profiled_second_moment: growth that alignment adds",
       seeds + "scaled/growth_from_alignment"},
      {"growth_alignment_error", "group seed", "nat",
       "what random models of these profiles and this width have for growth_from_alignment, root mean square",
       seeds + "scaled/growth_alignment_error"},
      {"growth_beyond_signs", "group seed", "nat",
       "ln of the measured one over the geometric mean of models that keep every |W_ij| and draw its sign",
       seeds + "scaled/growth_beyond_signs"},
      {"growth_beyond_signs_error", "group seed", "nat", "standard deviation of one such model's",
       seeds + "scaled/growth_beyond_signs_error"},
      {"validation_loss", "group seed record", "nat", "on the held-out windows", seeds + "validation_loss"},
      {"top_first", "group seed record", "1", "largest |x| of the stream", seeds + "top_first"},
      {"top_last", "group seed record", "1", "the 100th largest", seeds + "top_last"},
      {"cosine_share", "group seed record", "nat", "ln of the second moment at the top over Eq. 4's",
       seeds + "cosine_share"},
      {"theory_second_moment", "group depth", "1", "prediction at initialisation", group + "theory/second_moment"},
      {"theory_second_moment_stderr", "group depth", "1", "its standard error", group + "theory/second_moment_stderr"},
      {"theory_variance", "group depth", "1", "prediction at initialisation", group + "theory/variance"},
      {"theory_layer_gradient", "group layer", "nat2", "prediction at initialisation", group + "theory/layer_gradient"},
      {"theory_layer_gradient_stderr", "group layer", "nat2", "its standard error at most: the sum of its matrices'",
       group + "theory/layer_gradient_stderr"},
      {"claim_exhibit", "claim", "", "figure or table", "claims/[claim]/exhibit"},
      {"claim_statement", "claim", "", "what the source says, in our words", "claims/[claim]/statement"},
      {"claim_quantity", "claim", "", "the number that is positive if it is so", "claims/[claim]/quantity"},
      {"claim_verdict", "claim", "", "holds, fails, not-shown or not-run", "claims/[claim]/verdict"},
      {"claim_mean", "claim", "1", "mean over seeds of that number", "claims/[claim]/mean"},
      {"claim_stderr", "claim", "1", "its standard error", "claims/[claim]/stderr"},
      {"claim_p", "claim", "1", "chance of such values if the number were 0 and not positive, of this claim alone",
       "claims/[claim]/p"},
      {"claim_holm", "claim", "1",
       "chance that any of the run's tested claims would show so much, in either direction: Holm's p",
       "claims/[claim]/holm"},
      {"claim_detectable", "claim", "1", "true mean that as many further seeds would show with 95 % probability",
       "claims/[claim]/detectable"},
      {"claim_reason", "claim", "", "why it was not run, or a remark", "claims/[claim]/reason"},
      {"claim_value", "claim seed", "1", "that number of every seed", "claims/[claim]/values"},
      json_only("group_name", group + "name", "name of the group", "files have the coordinate group"),
      json_only("seed_value", seeds + "seed", "seed of weights and batches", "files have the coordinate seed"),
      json_only("claim_id", "claims/[claim]/id", "its name in the ledger", "files have the coordinate claim"),
      {"loss_floor", "", "nat", "smallest mean loss of any predictor of the corpus, if it is known", "loss_floor"},
      {"quick", "", "1", "1: the short profile", "quick"}};
  for (const Averaged& a : averaged()) {
    const std::string place = group + a.name + "/";
    all.push_back({a.name + "_mean", "group record " + a.dimension, a.units,
                   a.meaning + (a.geometric ? ": geometric mean over seeds" : ": mean over seeds"), place + "mean"});
    all.push_back({a.name + "_stderr", "group record " + a.dimension, a.geometric ? "1" : a.units,
                   a.geometric ? "standard error of the mean logarithm" : "standard error of the mean",
                   place + "stderr"});
  }
  return all;
}

/// Mean and standard error, entry by entry, over the seeds that have the record.
struct MeanCurve {
  Values mean, error;
};

MeanCurve average(const std::vector<Values>& curves, bool geometric) {
  MeanCurve result;
  for (std::size_t i = 0; i < curves.front().size(); ++i) {
    RunningMoments moments;
    for (const Values& curve : curves) {
      if (i < curve.size()) moments.add(geometric ? std::log(curve[i]) : curve[i]);
    }
    result.mean.push_back(geometric ? std::exp(moments.mean()) : moments.mean());
    result.error.push_back(moments.standard_error());
  }
  return result;
}

class GroupWriter {
 public:
  GroupWriter(const GroupRuns& runs, const std::vector<int>& steps, Columns::Row row)
      : runs_(runs), steps_(steps), row_(std::move(row)) {}

  void put() const {
    const Group& g = runs_.group;
    row_.put("group_name", g.name);
    row_.put("placement", placement_label(g.spec));
    row_.put("study", g.study);
    row_.put("lr", g.train.lr);
    row_.put("weight_decay", g.train.weight_decay);
    if (g.spec.init.scheme == InitScheme::normal) row_.put("init_std", g.spec.init.std);
    RunningMoments loss;
    for (std::size_t s = 0; s < runs_.cells.size(); ++s) {
      put_seed(runs_.cells[s], row_.at("seed", s));
      loss.add(final_loss(runs_.cells[s]));
    }
    row_.put("final_loss_mean", loss.mean());
    row_.put("final_loss_stderr", loss.standard_error());
    for (const Averaged& a : averaged()) put_average(a);
  }

  void put_theory(const theory::Prediction& prediction) const {
    if (!prediction.refusal.empty()) return;
    const Curve* q = prediction.profile.find(Statistic::second_moment, Signal::x_out);
    row_.put("theory_second_moment", q->value);
    row_.put("theory_second_moment_stderr", q->standard_error);
    row_.put("theory_variance", prediction.profile.find(Statistic::variance, Signal::x_out)->value);
    Values gradient, error;
    for (std::size_t w = 0; is_layer_matrix(static_cast<Weight>(w)); ++w) {
      const Curve* curve = prediction.profile.find(Statistic::grad_sq, static_cast<Weight>(w));
      if (curve == nullptr) continue;
      gradient.resize(curve->value.size(), 0.0);
      error.resize(curve->value.size(), 0.0);
      for (std::size_t l = 0; l < gradient.size(); ++l) {
        gradient[l] += curve->value[l];
        error[l] += curve->standard_error[l];
      }
    }
    if (gradient.empty()) return;
    row_.put("theory_layer_gradient", gradient);
    row_.put("theory_layer_gradient_stderr", error);
  }

 private:
  /// Mean and standard error by record, one record behind the other; NaN for a record that no seed has.
  void put_average(const Averaged& a) const {
    std::vector<MeanCurve> by_record(steps_.size());
    std::size_t length = 0;
    for (std::size_t r = 0; r < steps_.size(); ++r) {
      std::vector<Values> curves;
      for (const TrainedCell& cell : runs_.cells) {
        const auto it = cell.history.records.find(steps_[r]);
        if (it == cell.history.records.end()) continue;  // it had diverged
        Values values = a.values(it->second);
        if (!values.empty()) curves.push_back(std::move(values));
      }
      if (!curves.empty()) by_record[r] = average(curves, a.geometric);
      length = std::max(length, by_record[r].mean.size());
    }
    if (length == 0) return;
    Values mean, error;
    for (MeanCurve& curve : by_record) {
      curve.mean.resize(length, missing);
      curve.error.resize(length, missing);
      mean.insert(mean.end(), curve.mean.begin(), curve.mean.end());
      error.insert(error.end(), curve.error.begin(), curve.error.end());
    }
    row_.put(a.name + "_mean", mean);
    row_.put(a.name + "_stderr", error);
  }

  static void put_growth(const TrainedCell& cell, const Columns::Row& row) {
    const GrowthFit fit = fit_growth(at_end(cell, "variance.x_out"));
    if (std::isnan(fit.effective_points)) return;
    const std::optional<GrowthLaw> law = best_law(fit);
    row.put("growth_law", law ? growth_law_names[static_cast<std::size_t>(*law)] : no_growth_law);
    Values criterion, misfit;
    for (const DepthFit& one : fit.laws) {
      criterion.push_back(one.criterion);
      misfit.push_back(one.rms_residual);
    }
    row.put("growth_criterion", criterion);
    row.put("growth_misfit", misfit);
    row.put("growth_effective_points", fit.effective_points);
  }

  void put_seed(const TrainedCell& cell, const Columns::Row& row) const {
    const train::CellHistory& h = cell.history;
    row.put("seed_value", cell.cell.seed);
    row.put("loss", h.loss);
    row.put("grad_norm", h.grad_norm);
    row.put("last_layer_grad_norm", h.last_layer_norm);
    row.put("final_loss", final_loss(cell));
    const std::optional<int> diverged = train::divergence_step(h);
    row.put("diverged_at", diverged ? Json(*diverged) : Json());
    row.put("spikes", spikes(cell));
    if (const auto& last = h.records.rbegin()->second; last.contains("scaled_second_moment")) {
      const Values& scaled = last.at("scaled_second_moment");
      row.put("scaled_second_moment", scaled);
      row.put("scaled_second_moment_stderr", last.at("scaled_second_moment_stderr"));
      row.put("growth_from_scales", from_scales(cell));
      row.put("profiled_second_moment", last.at("profiled_second_moment"));
      row.put("profiled_second_moment_stderr", last.at("profiled_second_moment_stderr"));
      row.put("growth_from_sizes_inside", from_sizes_inside(cell));
      row.put("growth_from_alignment", from_alignment(cell));
      row.put("growth_alignment_error", last.at("profiled_deviation").back());
      row.put("growth_beyond_signs", beyond_signs(cell));
      row.put("growth_beyond_signs_error", last.at("signs_deviation").back());
    }
    put_growth(cell, row);
    const auto by_record = [&](const std::function<double(const RecordedValues&)>& read) {
      Values values;
      for (const int step : steps_) {
        const auto it = h.records.find(step);
        values.push_back(it == h.records.end() ? missing : read(it->second));
      }
      return values;
    };
    row.put("validation_loss", by_record([](const auto& record) { return record.at("validation_loss").front(); }));
    row.put("top_first", by_record([](const auto& record) { return record.at("top_magnitudes").front(); }));
    row.put("top_last", by_record([](const auto& record) { return record.at("top_magnitudes").back(); }));
    row.put("cosine_share", by_record(cosine_share));
  }

  const GroupRuns& runs_;
  const std::vector<int>& steps_;
  Columns::Row row_;
};

void put_claim(const Claim& claim, const Columns::Row& row) {
  row.put("claim_id", claim.id);
  row.put("claim_exhibit", claim.exhibit);
  row.put("claim_statement", claim.statement);
  row.put("claim_quantity", claim.quantity);
  row.put("claim_verdict", claim_verdict_names[static_cast<std::size_t>(claim.verdict)]);
  row.put("claim_reason", claim.reason);
  if (claim.values.empty()) return;
  row.put("claim_mean", claim.mean);
  row.put("claim_stderr", claim.standard_error);
  row.put("claim_p", claim.p);
  row.put("claim_holm", claim.holm);
  row.put("claim_detectable", claim.detectable);
  row.put("claim_value", claim.values);
}

}  // namespace

const Schema& schema() {
  static const Schema schema("reproduce", 2,
                             {{"group", "", "what was trained, and how"},
                              {"seed", "1", "seed of weights and batches"},
                              {"step", "1", "step of the optimizer", "", true},
                              {"record", "1", "steps done"},
                              {"depth", "1", "sublayers passed; 0 is the stack's input"},
                              {"other_depth", "1", "sublayers passed, second stream of a pair"},
                              {"sublayer", "1", "sublayer; even: attention, odd: MLP"},
                              {"layer", "1", "layer, attention and MLP"},
                              {"law", "", "law of growth over depth"},
                              {"claim", "", "name in the ledger of claims"}},
                             all_columns());
  return schema;
}

Columns columns(const ReproduceConfig& config, const ReproduceResult& result,
                const nlohmann::ordered_json& provenance) {
  Columns columns(schema(), provenance);
  std::vector<int> steps;
  for (int step = 0; step <= config.train.steps; ++step) {
    if (is_recorded(config.train, step)) steps.push_back(step);
  }
  const auto sublayers = static_cast<std::size_t>(config.base.model.sublayers());
  columns.put("record", steps);
  columns.count("step", static_cast<std::size_t>(config.train.steps), 1);
  columns.count("depth", sublayers + 1);
  columns.count("other_depth", sublayers + 1);
  columns.count("sublayer", sublayers);
  columns.count("layer", sublayers / 2);
  columns.put("law", std::vector(growth_law_names.begin(), growth_law_names.end()));
  columns.put("quick", config.quick);
  if (result.loss_floor) columns.put("loss_floor", *result.loss_floor);
  for (int s = 0; s < config.run.seeds; ++s) {
    columns.at("seed", static_cast<std::size_t>(s)).put("seed", config.run.seed + static_cast<std::uint64_t>(s));
  }
  for (std::size_t g = 0; g < result.groups.size(); ++g) {
    const GroupRuns& runs = result.groups[g];
    columns.at("group", g).put("group", runs.group.name);
    const GroupWriter writer(runs, steps, columns.at("group", g));
    writer.put();
    const auto initial = result.initial.find(runs.group.name);
    if (initial != result.initial.end()) writer.put_theory(initial->second);
  }
  for (std::size_t c = 0; c < result.claims.size(); ++c) {
    columns.at("claim", c).put("claim", result.claims[c].id);
    put_claim(result.claims[c], columns.at("claim", c));
  }
  return columns;
}

}  // namespace periscope::reproduce
