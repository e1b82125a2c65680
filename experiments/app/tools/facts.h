#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "sim/checkpoint/checkpoint.h"

/// The facts about a checkpoint that `info` shows as text and as JSON.
namespace periscope::app {

/// Norms of T1 that are there: "A B".
std::string letters_of(const SublayerRule& rule);
/// T1 with the norms that are there: "x + B(f(A(x)))".
std::string formula_of(const SublayerRule& rule);

/// The layers that have one rule. A scale is never 0 here.
struct RuleGroup {
  ScoreRule scores;
  std::vector<double> frequencies;
  std::vector<int> layers;
};
std::vector<RuleGroup> rules_of(const ModelSpec& model);

/// Tensors in use by number format.
std::map<std::string, int> types_of(const Checkpoint& checkpoint);
/// Numbers in use; a tied matrix counts once.
std::uint64_t parameters_of(const Checkpoint& checkpoint);
/// The class that wrote the checkpoint, or "not said".
std::string architecture_of(const Checkpoint& checkpoint);

/// Returns the checkpoint's warnings, and one about the first weight that is not finite. Reads all used weights, and
/// shows progress if there are many.
std::vector<std::string> warnings_of(const Checkpoint& checkpoint, stacks::Progress& progress);

/// A parameter and where it is stored, "layers.{i}" standing for every layer.
struct NameRow {
  std::string parameter;
  StoredPart part;
};
std::vector<NameRow> name_map_of(const Checkpoint& checkpoint);

}  // namespace periscope::app
