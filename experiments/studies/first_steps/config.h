#pragma once

#include "experiments/core/study/request.h"
#include "experiments/core/training/config.h"
#include "theory/first_steps/first_steps.h"

namespace periscope::first_steps {

/// [first_steps]: how T28 predicts, and what its verdict must be able to refuse.
struct FirstStepsConfig : training::TrainConfig {
  int neurons = theory::FirstStepsOptions().neurons;
  int chains = theory::FirstStepsOptions().chains;
  theory::StepFault fault = theory::StepFault::none;
  bool predict_only = false;   ///< nothing is trained
  double change_limit = 0.2;   ///< of the stream's second moment, relative to the stream's change in the step
  double cosine_limit = 0.05;  ///< absolute
  double update_limit = 0.5;   ///< relative, of a matrix's mean square of ΔW·h
  double loss_limit = 0.2;     ///< relative to the loss's change

  void add_own_sections(nlohmann::ordered_json& resolved, bool for_hash) const override;
};

extern const Section<FirstStepsConfig> first_steps_section;

/// The number of steps where train.steps is not given: the theory is one of the first.
inline constexpr int usual_steps = 8;

/// Reads the configuration of a request; `corpus`, unless it is empty, stands for train.corpus. Every step is recorded.
/// Throws ConfigError as training::train_config, for frozen weights, which T28 does not know, for records of fewer
/// steps, and for a fault of other predictions.
[[nodiscard]] FirstStepsConfig load(const study::Request& request, const std::string& corpus);

/// What theory has instead of the truth, with the planted fault: as config::override_json and override_lines.
[[nodiscard]] nlohmann::ordered_json override_json(const FirstStepsConfig& config);
[[nodiscard]] std::string override_lines(const FirstStepsConfig& config);
[[nodiscard]] std::string_view name_of(theory::StepFault fault);

}  // namespace periscope::first_steps
