#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/training/config.h"
#include "experiments/engine/training/task.h"
#include "theory/predict/predict.h"

namespace periscope::reproduce {

/// One training setup of one placement. Runs with equal seeds are twins: same random numbers, same batches.
struct Group {
  std::string name;   ///< "pre, rate x 3": the placement, and the difference from the shared settings
  std::string study;  ///< "base", "rates", …
  StackSpec spec;
  TrainSpec train;
  std::vector<std::string> set = {};     ///< keys with fixed values, independent of the shared settings
  std::vector<std::string> scaled = {};  ///< keys with values derived from the shared settings
};

/// Training results of one group by seed and, for groups of the base study, the prediction before training.
struct GroupRuns {
  Group group;
  std::vector<training::TrainingResult> tasks;
  std::optional<theory::Prediction> initial = {};
};

/// A figure or table of the paper, or a claim of its sources, and the studies that it needs.
struct Exhibit {
  std::string_view name;  ///< value of --figure: "1", "table5", "growth"
  std::vector<std::string_view> studies;
  bool quick;  ///< part of --quick
};

/// Returns all exhibits in the paper's order.
[[nodiscard]] const std::vector<Exhibit>& exhibits();

/// Returns the named exhibits. Without names, returns all, or those of the short profile with `quick`. Throws
/// ConfigError for an unknown name, and suggests the nearest.
[[nodiscard]] std::vector<const Exhibit*> select_exhibits(const std::vector<std::string>& names, bool quick);

/// Returns the groups of the studies that these exhibits need, each once, in the order of the exhibits. `shared` has
/// the common settings.
[[nodiscard]] std::vector<Group> groups_of(const std::vector<const Exhibit*>& exhibits,
                                           const training::TrainConfig& shared, bool quick);

/// Throws ConfigError if the user has set a key that a study of these exhibits sets itself: the study would ignore the
/// user's value or compare a group with itself.
void reject_settings_of_studies(const std::vector<const Exhibit*>& exhibits, const training::TrainConfig& shared);

/// Throws ConfigError if two groups have the same stack and training: a claim would compare a run with itself.
void reject_equal_groups(const std::vector<Group>& groups);

/// Sets the defaults of the proxy model and its training for keys that the user has not set.
void set_proxy_defaults(training::TrainConfig& config, bool quick);

}  // namespace periscope::reproduce
