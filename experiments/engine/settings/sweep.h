#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// A key of [model], [init] or [input] whose value is a list.
struct SweptKey {
  std::string section, key;        ///< "model", "qk_norm"
  std::vector<std::string> texts;  ///< values as shown in labels and messages
  Location location;
  std::size_t period = 1;  ///< number of consecutive combinations with the same value

  [[nodiscard]] std::string name() const { return section + "." + key; }
  [[nodiscard]] std::size_t entry(std::size_t combination) const { return combination / period % texts.size(); }
};

/// The sweep of a configuration: the cross product of all lists of several values, the first list in the outer loop.
/// Excludes input.kind, whose list is a separate dimension of results.
class Sweep {
 public:
  /// Throws ConfigError for a list that is empty or has equal entries, and for more than 1000 combinations.
  explicit Sweep(const Tree& tree);

  [[nodiscard]] std::size_t combinations() const { return combinations_; }
  /// Returns `tree` with every list replaced by its value in combination `i`. `tree` is the constructor's argument, or
  /// the same tree with --theory-set applied. Throws ConfigError unless a list set by --theory-set has one value or the
  /// length of the measured stacks' list.
  [[nodiscard]] Tree combination(std::size_t i, Tree tree) const;
  /// Returns the name of combination `i` in results, such as "peri, qk_norm full": the recipe if recipes are swept,
  /// else the placement, then the values of all other swept keys. Returns "" if only placements are swept.
  [[nodiscard]] std::string label(std::size_t i, const StackSpec& spec) const;
  /// Returns the names of all keys with several values.
  [[nodiscard]] std::string names() const;

 private:
  [[nodiscard]] const SweptKey* find(std::string_view name) const;

  std::vector<SweptKey> keys_;
  std::size_t combinations_ = 1;
};

/// Parses a recipe ("llama"), a placement ("keel"), or a TOML table: keys of model, init and input, such as
/// {model.recipe = "llama", init.std = 0.01}, or a placement, {A = true, C = true}. Throws ConfigError.
Candidate parse_candidate(const std::string& word);

/// Throws ConfigError, prefixed with `what`, if two stacks are equal or have the same name.
void require_comparable(const std::vector<StackSpec>& stacks, const std::string& what);

/// Throws ConfigError, giving the reason `why`, if the stacks of the run differ in `key`.
void require_one_value(const Config& config, std::string_view key, std::string_view why,
                       const std::function<double(const StackSpec&)>& value);

}  // namespace periscope::config
