#include <cmath>
#include <functional>
#include <limits>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/studies/reproduce/dataset_tables.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {
namespace {

using training::RecordedValues;
using Values = std::vector<double>;

const std::string on_run = "group seed";

dataset::Table<judge::GrowthFit> growth_table() {
  using G = judge::GrowthFit;
  dataset::Table<G> table;
  const auto of_laws = [](double judge::DepthFit::*value) {
    return [value](const G& fit) {
      Values values;
      for (const judge::DepthFit& one : fit.laws) values.push_back(one.*value);
      return values;
    };
  };
  table
      .column({"growth_law", on_run, "",
               "law that describes the variance over depth at the end best, from depth 2 on, where growth_criterion is "
               "lower by 2 than any other's; no law fits: none to 10 %"},
              judge::likely_laws_in_words)
      .column({"growth_criterion", on_run + " law", "1",
               "QAICc of a law of growth over depth, with growth_effective_points"},
              of_laws(&judge::DepthFit::criterion))
      .column({"growth_misfit", on_run + " law", "1", "root mean square of ln(variance / law) over depths from 2 on"},
              of_laws(&judge::DepthFit::rms_residual))
      .column(
          {"growth_effective_points", on_run, "1",
           "effective number of independent depths, from the autocorrelation at lag one of the closest law's errors"},
          &G::effective_points);
  return table;
}

std::vector<judge::GrowthFit> growth_of(const Run& run) {
  judge::GrowthFit fit = judge::fit_growth(at_end(run.cell, "variance.x_out"));
  if (std::isnan(fit.effective_points)) return {};
  return {std::move(fit)};
}

/// A run whose last record has theory at the trained weights' sizes.
struct Sized {
  const training::TrainedCell& cell;
  const RecordedValues& last;
};

dataset::Table<Sized> sizes_table() {
  using S = Sized;
  dataset::Table<S> table;
  const std::string on_depth = on_run + " depth";
  const auto recorded = [](const char* name) { return [name](const S& s) { return s.last.at(name); }; };
  table
      .column({"scaled_second_moment", on_depth, "1",
               "mean square of the stream of random weights with the trained ones' scales, at the end"},
              recorded("scaled_second_moment"))
      .column({"scaled_second_moment_stderr", on_depth, "1", "its standard error"},
              recorded("scaled_second_moment_stderr"))
      .column({"growth_from_scales", on_run, "nat",
               "ln of that at the top over the second moment before training: growth that scales explain"},
              [](const S& s) { return from_scales(s.cell); })
      .column(
          {"profiled_second_moment", on_depth, "1",
           "mean square of the stream of random weights with the trained scale of every row and column (T29; embedding "
           "tables: of the rows in use), at the end"},
          recorded("profiled_second_moment"))
      .column({"profiled_second_moment_stderr", on_depth, "1", "its standard error"},
              recorded("profiled_second_moment_stderr"))
      .column({"growth_from_sizes_inside", on_run, "nat",
               "ln of that over scaled_second_moment, at the top: growth that sizes inside matrices explain"},
              [](const S& s) { return from_sizes_inside(s.cell); })
      .column({"growth_from_alignment", on_run, "nat",
               "ln of the measured one over profiled_second_moment: growth that alignment adds"},
              [](const S& s) { return from_alignment(s.cell); })
      .column({"rescaled_second_moment", on_depth, "1",
               "mean square of the stream of the trained stack with every matrix divided to its root mean square "
               "before training, and gains, biases and alphas from then, at the end"},
              recorded("rescaled_second_moment"))
      .column({"growth_from_directions", on_run, "nat",
               "ln of that at the top over the second moment before training: growth that the matrices' directions "
               "explain at the sizes before training"},
              [](const S& s) { return from_directions(s.cell); })
      .column({"growth_from_scales_given_directions", on_run, "nat",
               "ln of the measured one over rescaled_second_moment: growth that scales and gains add to the trained "
               "directions"},
              [](const S& s) { return from_scales_given_directions(s.cell); })
      .column({"growth_interaction", on_run, "nat",
               "growth_from_scales_given_directions less growth_from_scales: what scales explain only together with "
               "the directions"},
              [](const S& s) { return growth_interaction(s.cell); })
      .column({"growth_alignment_error", on_run, "nat",
               "what random models of these profiles and this width have for growth_from_alignment, root mean square"},
              [](const S& s) { return s.last.at("profiled_deviation").back(); })
      .column({"growth_beyond_signs", on_run, "nat",
               "ln of the measured one over the geometric mean of models that keep every |W_ij| and draw its sign"},
              [](const S& s) { return beyond_signs(s.cell); })
      .column({"growth_beyond_signs_error", on_run, "nat", "standard deviation of one such model's"},
              [](const S& s) { return s.last.at("signs_deviation").back(); });
  return table;
}

std::vector<Sized> sizes_of(const Run& run) {
  const RecordedValues& last = run.history().records.rbegin()->second;
  if (!last.contains("scaled_second_moment")) return {};
  return {{run.cell, last}};
}

/// A number of every record; NaN where the run had ended.
std::function<Values(const Run&)> by_record(const std::function<double(const RecordedValues&)>& read) {
  return [read](const Run& run) {
    Values values;
    for (const int step : run.steps) {
      const auto it = run.history().records.find(step);
      values.push_back(it == run.history().records.end() ? std::numeric_limits<double>::quiet_NaN() : read(it->second));
    }
    return values;
  };
}

}  // namespace

dataset::Table<Run> run_table() {
  dataset::Table<Run> table;
  const std::string on_step = on_run + " step";
  const std::string on_record = on_run + " record";
  table.column({"loss", on_step, "nat", "training loss"}, [](const Run& r) { return r.history().loss; })
      .column({"grad_norm", on_step, "nat", "norm of all gradients before clipping"},
              [](const Run& r) { return r.history().grad_norm; })
      .column({"last_layer_grad_norm", on_step, "nat", "norm of the last layer's gradients"},
              [](const Run& r) { return r.history().last_layer_norm; })
      .column({"final_loss", on_run, "nat", "mean training loss of the last tenth of the steps; ln V if not finite"},
              [](const Run& r) { return final_loss(r.cell); })
      .column({"diverged_at", on_run, "1", "step at which a run diverged"},
              [](const Run& r) { return training::divergence_step(r.history()); })
      .column(
          {"spikes", on_run, "1",
           "events in which the logarithm of loss or gradient norm spikes, for all steps at the rate of those done"},
          [](const Run& r) { return spikes(r.cell); })
      .column({"spike", on_step, "1", "1 at the first step of each event that spikes counts, else 0"},
              [](const Run& r) { return spike_starts(r.cell); })
      .part_if_any(growth_table(), growth_of)
      .part_if_any(sizes_table(), sizes_of)
      .column({"validation_loss", on_record, "nat", "on the held-out windows"},
              by_record([](const RecordedValues& record) { return record.at("validation_loss").front(); }))
      .column({"top_first", on_record, "1", "largest |x| of the stream"},
              by_record([](const RecordedValues& record) { return record.at("top_magnitudes").front(); }))
      .column({"top_last", on_record, "1", "the 100th largest"},
              by_record([](const RecordedValues& record) { return record.at("top_magnitudes").back(); }))
      .column({"cosine_share", on_record, "nat", "ln of the second moment at the top over Eq. 4's"},
              by_record(cosine_share));
  return table;
}

}  // namespace periscope::reproduce
