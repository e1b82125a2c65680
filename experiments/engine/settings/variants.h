#pragma once

#include <toml++/toml.h>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// A key of [model], [init] or [input] that has a list: a run goes through its values.
struct ListedKey {
  std::string name;                ///< "model.qk_norm"
  std::vector<std::string> texts;  ///< of its values, for people
};

/// The lists of a configuration. Their cross product are the run's variants, the first list outermost. input.kind,
/// whose list is a dimension of results itself, is none of them.
class Lists {
 public:
  /// Lists count in the order in which the file names their keys, then in that of the settings ("a.b=value"). Throws
  /// ConfigError for an empty list, for an entry that is in a list twice, for a list in a table whose keys take none,
  /// and for more than 1000 combinations; and what read_table throws.
  Lists(const std::string& file, const std::vector<std::string>& settings);

  [[nodiscard]] std::size_t combinations() const;
  /// Returns true if the key has several values.
  [[nodiscard]] bool varies(std::string_view name) const;
  /// Returns true if a key other than model.placement has several values.
  [[nodiscard]] bool vary_more_than_placement() const;
  /// The configuration with the values of combination `i`.
  [[nodiscard]] toml::table table(std::size_t i) const;
  /// Returns the configuration of combination `i` with the values that --theory-set overrides for theory: one value for
  /// all combinations, or a list as long as the measured one, entry by entry. Throws ConfigError for a list of another
  /// length.
  [[nodiscard]] toml::table overridden(std::size_t i, const std::vector<std::string>& theory_settings) const;
  /// "peri, qk_norm full": what results call the stack of combination `i`: its recipe if recipes vary, else its
  /// placement, then the value of every other key that varies.
  [[nodiscard]] std::string label(std::size_t i, const StackSpec& spec) const;
  /// Throws ConfigError if two of the stacks are equal or have one name, or if they have different numbers of layers.
  void require_comparable(const std::vector<StackSpec>& stacks) const;

 private:
  [[nodiscard]] std::vector<std::size_t> places(std::size_t i) const;
  [[nodiscard]] std::string names() const;

  std::string file_;
  std::string text_;  ///< of the file, which may have changed since
  std::vector<std::string> settings_;
  std::vector<ListedKey> keys_;
};

/// Throws ConfigError if stacks of the run differ in `key`, which `why` says they may not.
void require_one_value(const Config& config, std::string_view key, std::string_view why,
                       const std::function<double(const StackSpec&)>& value);

}  // namespace periscope::config
