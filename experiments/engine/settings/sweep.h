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
  std::vector<std::string> texts;  ///< of its values, for people
  Location location;
  std::size_t period = 1;  ///< number of consecutive combinations with the same entry

  [[nodiscard]] std::string name() const { return section + "." + key; }
  [[nodiscard]] std::size_t entry(std::size_t combination) const { return combination / period % texts.size(); }
};

/// The lists of several values in a configuration, whose cross product gives the run's variants, the first list
/// outermost. input.kind does not count, as its list is a dimension of results.
class Sweep {
 public:
  /// Throws ConfigError for a list that is empty or holds an entry twice, and for more than 1000 combinations.
  explicit Sweep(const Tree& tree);

  [[nodiscard]] std::size_t combinations() const { return combinations_; }
  /// Returns `tree` with every list replaced by its value in combination `i`. `tree` is the constructor's, or that with
  /// --theory-set applied. A list set by --theory-set has one value, or as many as the list of the measured stacks;
  /// throws ConfigError for any other length.
  [[nodiscard]] Tree combination(std::size_t i, Tree tree) const;
  /// Returns the name of combination `i`'s stack in results, "peri, qk_norm full": its recipe if recipes vary, else its
  /// placement, then the value of every other key that varies; "" if placements alone vary.
  [[nodiscard]] std::string label(std::size_t i, const StackSpec& spec) const;
  /// Throws ConfigError if two of the stacks are equal or have one name, or if they have different numbers of layers.
  void require_comparable(const std::vector<StackSpec>& stacks) const;

 private:
  [[nodiscard]] const SweptKey* find(std::string_view name) const;
  [[nodiscard]] std::string names() const;

  std::vector<SweptKey> keys_;
  std::size_t combinations_ = 1;
};

/// Throws ConfigError if stacks of the run differ in `key`; `why` ends the sentence.
void require_one_value(const Config& config, std::string_view key, std::string_view why,
                       const std::function<double(const StackSpec&)>& value);

}  // namespace periscope::config
