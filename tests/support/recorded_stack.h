#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/model/input.h"
#include "sim/model/stack.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// The stream signals of one forward pass, on the host.
struct RecordedStack {
  std::vector<double> input;                                   ///< after the embedding norm [N, D]
  std::map<std::pair<int, Signal>, std::vector<double>> site;  ///< by sublayer
  std::vector<double> stream;
  std::vector<double> output;

  [[nodiscard]] const std::vector<double>& at(int sublayer, Signal place) const { return site.at({sublayer, place}); }
};

RecordedStack record_stack(const StackContext& context, const Tensor& input);

/// Records a pass with generated weights and Gaussian input on the target.
RecordedStack record_stack(const Target& target, const StackSpec& spec, std::uint64_t seed);

/// A validated stack small enough for plain loops: 2 layers, width 12, 4 heads of 6 (so that heads·head_dim differs
/// from the width), 2 key/value heads, 5 tokens, LeCun initialization, gain 0.8.
StackSpec tiny_stack();

/// Returns the spec with a named placement and its default norms.
StackSpec placed(StackSpec spec, std::string_view placement);

/// Placements of theorem T1, for tests that take seconds per placement.
std::span<const Placement> rows_of_t1();

/// Returns true if every sublayer is one addition and no norm is inside a module.
bool is_plain(const Placement& placement);

/// Returns Σ x²/D of every row.
std::vector<double> second_moments(const std::vector<double>& x, int width);

}  // namespace periscope::testing
