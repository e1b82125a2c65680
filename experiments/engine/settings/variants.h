#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope::config {

/// A key of [model], [init] or [input] whose value is a list.
struct ListedKey {
  std::string name;                ///< "model.qk_norm"
  std::vector<std::string> texts;  ///< of its values, for people
  /// First the file's keys by line and column, then those of settings, each by the last setting that names it.
  std::tuple<std::size_t, std::size_t, std::size_t> order;

  [[nodiscard]] bool varies() const { return texts.size() > 1; }
};

/// The lists of a configuration, whose cross product gives the run's variants, the first list outermost. input.kind
/// does not count, as its list is a dimension of results.
class Lists {
 public:
  /// Throws ConfigError for a list that is empty or holds an entry twice, and for more than 1000 combinations.
  explicit Lists(const Tree& tree);

  [[nodiscard]] std::size_t combinations() const;
  /// Returns true if a key other than model.placement has several values.
  [[nodiscard]] bool vary_more_than_placement() const;
  /// The entries of combination `i` in the lists of the tree.
  [[nodiscard]] Choice choice(std::size_t i) const;
  /// Returns the entries of combination `i` in `overridden`, the tree with the values of --theory-set: one value for
  /// all combinations, or a list as long as the measured one. Throws ConfigError for a list of another length.
  [[nodiscard]] Choice choice(std::size_t i, const Tree& overridden) const;
  /// Returns the name of combination `i`'s stack in results, "peri, qk_norm full": its recipe if recipes vary, else its
  /// placement, then the value of every other key that varies.
  [[nodiscard]] std::string label(std::size_t i, const StackSpec& spec) const;
  /// Throws ConfigError if two of the stacks are equal or have one name, or if they have different numbers of layers.
  void require_comparable(const std::vector<StackSpec>& stacks) const;

 private:
  [[nodiscard]] bool varies(std::string_view name) const;
  [[nodiscard]] std::string names() const;

  std::vector<ListedKey> keys_;
};

/// Throws ConfigError if stacks of the run differ in `key`; `why` ends the sentence.
void require_one_value(const Config& config, std::string_view key, std::string_view why,
                       const std::function<double(const StackSpec&)>& value);

}  // namespace periscope::config
