#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/model/input.h"
#include "sim/model/stack.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// Every signal of one forward pass, on the host.
struct RecordedStack {
  std::vector<double> input;                                   ///< after the embedding norm [N, D]
  std::map<std::pair<int, Signal>, std::vector<double>> site;  ///< by sublayer
  std::vector<double> stream;
  std::vector<double> output;

  [[nodiscard]] const std::vector<double>& at(int sublayer, Signal place) const { return site.at({sublayer, place}); }
};

RecordedStack record_stack(const StackContext& context, const Tensor& input);

/// Generated weights and Gaussian input of the spec, on the target.
RecordedStack record_stack(const Target& target, const StackSpec& spec, std::uint64_t seed);

/// A stack small enough for plain loops: 2 layers, width 12, 4 heads of 6 with 2 for keys and values (so
/// that heads·head_dim is not the width), 5 tokens, LeCun's variances, gain 0.8. Validated.
StackSpec tiny_stack();

/// The spec with a named placement and the norms that come with it.
StackSpec placed(StackSpec spec, std::string_view placement);

/// The rows of T1's own table, up to ResiDual, of which tests take all where each costs seconds.
std::span<const Placement> rows_of_t1();

/// True for a row that is T1 alone, one addition for every sublayer, without norms inside modules.
bool is_plain(const Placement& placement);

/// Σ x²/D of every row.
std::vector<double> second_moments(const std::vector<double>& x, int width);

}  // namespace periscope::testing
