#pragma once

#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/study/request.h"
#include "experiments/engine/training/config.h"
#include "theory/first_steps/first_steps.h"

namespace periscope::first_steps {

/// Section [first_steps]: options of the prediction (T28), and the limits of the detectable errors (T22).
struct FirstStepsConfig : training::TrainConfig {
  int neurons = theory::FirstStepsOptions().neurons;
  int replicates = theory::FirstStepsOptions().replicates;
  theory::StepFault fault = theory::StepFault::none;
  bool predict_only = false;   ///< predicts without training
  std::vector<double> rates;   ///< swept learning rates, the outer index of stacks(); empty: train.lr alone
  double change_limit = 0.2;   ///< limit for the change of the stream's second moment, relative to change_scale()
  double cosine_limit = 0.05;  ///< limit for the cosine of branch and stream, absolute
  double update_limit = 0.5;   ///< limit for the mean square of an entry of ΔW·h, relative
  double loss_limit = 0.2;     ///< limit for the loss, relative to its change
  /// Returns the section [train] of stacks()[stack].
  [[nodiscard]] TrainSpec train_of(std::size_t stack) const;
};

extern const Section<FirstStepsConfig> first_steps_section;

/// Reads the configuration of a request. A nonempty `corpus` replaces train.corpus. train.lr may be a list. Every step
/// is recorded. The default sizes need 4 GB, and the theory is valid for the default rate. Exceptions of
/// training::train_config propagate. Also throws ConfigError for frozen weights, for record_every other than 1, for
/// fewer replicates than seeds (a replicate uses the batches of one seed), and for theory.fault.
[[nodiscard]] FirstStepsConfig load(study::Request request, const std::string& corpus);

/// Returns the settings that determine the results, with all swept rates.
[[nodiscard]] config::Resolved resolved(const FirstStepsConfig& config, const Corpus& corpus);

/// Returns first_steps.fault with its meaning for messages.
[[nodiscard]] config::PlantedFault fault_of(const FirstStepsConfig& config);

}  // namespace periscope::first_steps
