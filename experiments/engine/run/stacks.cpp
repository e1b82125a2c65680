

#include "experiments/engine/run/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "experiments/engine/run/cached_prediction.h"
#include "experiments/engine/run/cell_journal.h"
#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"
#include "theory/predict/finite_width.h"

namespace periscope::stacks {

namespace {

std::string label_of(const StackSpec& spec) {
  return fmt::format("{}, {} input", config::short_label(spec),
                     input_kind_names[static_cast<std::size_t>(spec.input.kind)]);
}

/// Returns the operations that T25's replicates for the measurement of `spec` may use; infinite if they were asked for.
double affordable_chain(const StackSpec& spec, const config::Config& config) {
  if (config.theory.finite_width.has_value()) return std::numeric_limits<double>::infinity();
  return config.run.seeds * reading_operations(spec, config.run);
}

/// Returns the operations of all replicates of theory's stack `overridden` for the measurement of `spec`.
double chain_operations(const StackSpec& spec, const StackSpec& overridden, const config::Config& config) {
  const std::size_t sequences = distinct_token_ids(spec, run_of(config, spec).seed, config.run.seeds).size();
  const int count =
      config.theory.replicates > 0
          ? config.theory.replicates
          : theory::replicates_for(overridden, config.run.seeds, static_cast<int>(std::max<std::size_t>(sequences, 1)),
                                   affordable_chain(spec, config));
  return count * theory::chain_operations(overridden);
}

/// The prediction of one stack: computed, or read from the run's journal.
class CachedPredictions {
 public:
  CachedPredictions(const config::Config& config, Progress& progress, bool from_journal)
      : config_(config), progress_(progress), journal_(from_journal ? progress.journal() : nullptr) {}

  /// One step of progress; its seconds do not count where nothing was computed.
  template <class Compute>
  theory::Prediction get(std::string_view what, const StackSpec& spec, const StackSpec& overridden,
                         const Compute& compute) {
    const std::string key = journal_ == nullptr ? "" : prediction_key(what, spec, overridden, config_);
    if (journal_ != nullptr) {
      if (const std::optional<JournalPart> cell = journal_->find(key)) {
        theory::Prediction prediction = cached_prediction(*cell, overridden.model);
        progress_.kept(label_of(spec), 1);
        return prediction;
      }
    }
    theory::Prediction prediction = compute();
    if (journal_ != nullptr && is_worth_keeping(prediction)) journal_->keep(key, cached_prediction_json(prediction));
    progress_.step(label_of(spec));
    return prediction;
  }

 private:
  const config::Config& config_;
  Progress& progress_;
  CellJournal* journal_;
};

}  // namespace

config::RunOptions run_of(const config::Config& config, const StackSpec& spec) {
  config::RunOptions run = config.run;
  if (run.paired) return run;
  const std::string name =
      fmt::format("{} {}", config::placement_label(spec), input_kind_names[static_cast<std::size_t>(spec.input.kind)]);
  constexpr std::size_t digits = 15;  // 60 bits
  run.seed += std::stoull(config::sha256_hex(name).substr(0, digits), nullptr, 16);
  return run;
}

Work work_of_stacks(const config::Config& config, bool at_width, bool measures) {
  Work work;
  const std::vector<StackSpec> measured = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const double affordable = affordable_operations(measured[i], config, config.run.seeds);
    work.of(WorkKind::limit) += limit_operations(overridden[i], config.run.backward, affordable);
    if (at_width) work.of(WorkKind::chain) += chain_operations(measured[i], overridden[i], config);
    if (measures) work.of(WorkKind::measurement) += config.run.seeds * reading_operations(measured[i], config.run);
  }
  return work;
}

std::vector<StackResult> predict_stacks(const config::Config& config, bool at_width, Progress& progress,
                                        bool from_journal) {
  config::require_fault_acts(config);
  CachedPredictions kept(config, progress, from_journal);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  std::vector<StackResult> results;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    progress.throw_if_stop_requested();
    const StackSpec& spec = stacks[i];
    const std::uint64_t seed = run_of(config, spec).seed;
    StackResult result{.spec = spec, .prediction = {}, .measurement = {}, .judged = {}};
    theory::PredictionOptions options{.tolerance = config.theory.wanted_tolerance(),
                                      .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                                      .operations = affordable_operations(spec, config, config.run.seeds),
                                      .reaches_tolerance = config.theory.precision_was_given(),
                                      .seed = seed,
                                      .fault = config.theory.fault,
                                      .on_share = progress.on_share()};
    if (config.run.backward) options.labels = distinct_label_ids(spec, seed, config.run.seeds);
    // Token ids and labels are the run's own, whatever else is overridden for theory.
    const std::vector<std::vector<int>> ids = distinct_token_ids(spec, seed, config.run.seeds);
    progress.next(WorkKind::limit, limit_operations(overridden[i], config.run.backward, options.operations),
                  label_of(spec) + ": theory");
    result.prediction =
        kept.get("limit", spec, overridden[i], [&] { return theory::predict(overridden[i], ids, options); });
    if (at_width) {
      progress.next(WorkKind::chain, chain_operations(spec, overridden[i], config),
                    label_of(spec) + ": theory at this width");
      result.prediction = kept.get("prediction at its width", spec, overridden[i], [&] {
        theory::Prediction prediction = std::move(result.prediction);
        theory::predict_at_width(overridden[i], ids,
                                 {.seeds = config.run.seeds,
                                  .replicates = config.theory.replicates,
                                  .operations = affordable_chain(spec, config),
                                  .seed = seed,
                                  .fault = config.theory.fault,
                                  .on_share = progress.on_share()},
                                 prediction);
        return prediction;
      });
    }
    results.push_back(std::move(result));
  }
  return results;
}

MeasuredStacks measure_stacks(const config::Config& config, Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  MeasuredStacks measured{.specs = config.stacks(), .measurements = {}, .per_seed = {}, .dtype = config.run.dtype};
  for (const StackSpec& spec : measured.specs) {
    progress.next(WorkKind::measurement, reading_operations(spec, config.run), label_of(spec));
    judge::SeedCurves& curves = measured.per_seed.emplace_back();
    const SeedAverage average =
        measure_stack(*backend, spec, run_of(config, spec), config.run.seeds, progress, [&](const Reading& reading) {
          curves.add(reading.profile);
          progress.step(label_of(spec));
        });
    measured.measurements.push_back({.profile = average.profile(),
                                     .top = average.top(),
                                     .seeds = average.seeds(),
                                     .diverged_seeds = average.diverged_seeds(),
                                     .diverged_at = average.diverged_at()});
  }
  return measured;
}

std::vector<judge::StackVerdict> judge_stacks(const MeasuredStacks& measured,
                                              const std::vector<const theory::Prediction*>& predictions,
                                              const config::AgreementOptions& options) {
  std::vector<judge::Comparison> comparisons;
  for (std::size_t i = 0; i < measured.specs.size(); ++i) {
    const Measurement& m = measured.measurements[i];
    comparisons.push_back({.spec = measured.specs[i],
                           .measured = m.profile,
                           .seeds = m.seeds,
                           .diverged_seeds = m.diverged_seeds,
                           .dtype = measured.dtype,
                           .prediction = *predictions[i],
                           .per_seed = &measured.per_seed[i]});
  }
  return judge::verdicts_of(comparisons, options);
}

}  // namespace periscope::stacks
