#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/training/config.h"
#include "experiments/engine/training/task.h"
#include "theory/predict/predict.h"

namespace periscope::reproduce {

/// One way to train one placement; its seeds are twins of those of every other group.
struct Group {
  std::string name;   ///< "pre, rate x 3": the placement, and what differs from the shared setting
  std::string study;  ///< "base", "rates", …
  StackSpec spec;
  TrainSpec train;
  std::vector<std::string> set = {};     ///< keys that the group sets, regardless of the shared setting
  std::vector<std::string> scaled = {};  ///< keys whose values derive from the shared ones
};

/// The trained seeds of one group, in order, and for groups of the base study the prediction before training.
struct GroupRuns {
  Group group;
  std::vector<training::TrainingResult> tasks;
  std::optional<theory::Prediction> initial = {};
};

/// A figure or table of the paper, or a claim of its sources, and the studies that show it.
struct Exhibit {
  std::string_view name;  ///< as on the command line: "1", "table5", "growth"
  std::vector<std::string_view> studies;
  bool quick;  ///< part of --quick
};

/// All of them, in the paper's order.
[[nodiscard]] const std::vector<Exhibit>& exhibits();

/// Returns the exhibits of these names; without names all, or with `quick` all that are part of the short profile.
/// Throws ConfigError for an unknown name, and suggests the nearest.
[[nodiscard]] std::vector<const Exhibit*> chosen(const std::vector<std::string>& names, bool quick);

/// Returns the groups of the studies that these exhibits need, each once, in the order of the exhibits. `shared` is
/// their common setting.
[[nodiscard]] std::vector<Group> groups_of(const std::vector<const Exhibit*>& exhibits,
                                           const training::TrainConfig& shared, bool quick);

/// Throws ConfigError for a key that the user has given and a study of these exhibits sets itself: its groups would
/// ignore it, or, with equal values, the study would compare a group with itself.
void reject_settings_of_studies(const std::vector<const Exhibit*>& exhibits, const training::TrainConfig& shared);

/// Throws ConfigError if two groups have the same stack and training: no claim may compare a run with itself.
void reject_equal_groups(const std::vector<Group>& groups);

/// Sets the keys of the proxy model and its training that the user has not given.
void set_proxy(training::TrainConfig& config, bool quick);

}  // namespace periscope::reproduce
