#pragma once

#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/study/request.h"
#include "experiments/engine/training/config.h"
#include "theory/first_steps/first_steps.h"

namespace periscope::first_steps {

/// [first_steps]: how T28 predicts, and what its verdict must be able to refuse.
struct FirstStepsConfig : training::TrainConfig {
  int neurons = theory::FirstStepsOptions().neurons;
  int replicates = theory::FirstStepsOptions().replicates;
  theory::StepFault fault = theory::StepFault::none;
  bool predict_only = false;   ///< nothing is trained
  std::vector<double> rates;   ///< train.lr of stacks(), which go through it, the rates outermost; empty: train.lr
  double change_limit = 0.2;   ///< of the stream's second moment, relative to the stream's change in the step
  double cosine_limit = 0.05;  ///< absolute
  double update_limit = 0.5;   ///< relative, of a matrix's mean square of ΔW·h
  double loss_limit = 0.2;     ///< relative to the loss's change
  /// [train] of stacks()[stack].
  [[nodiscard]] TrainSpec train_of(std::size_t stack) const;
};

extern const Section<FirstStepsConfig> first_steps_section;

/// Reads the configuration of a request; `corpus`, unless it is empty, stands for train.corpus. Every step is recorded.
/// With the defaults of sizes, tokens, batch, steps and rate 4 GB are enough, and the theory holds. train.lr may be a
/// list. Throws ConfigError as training::train_config does, for frozen weights, which T28 does not support, for records
/// of fewer steps, for fewer chains than seeds (each chain uses the batches of one seed), and for a fault of other
/// predictions.
[[nodiscard]] FirstStepsConfig load(study::Request request, const std::string& corpus);

/// The settings that the results depend on, as training::resolved, with all rates.
[[nodiscard]] config::Resolved resolved(const FirstStepsConfig& config, const Corpus& corpus);

/// first_steps.fault, for what is said about overrides.
[[nodiscard]] config::PlantedFault fault_of(const FirstStepsConfig& config);

}  // namespace periscope::first_steps
