#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/checkpoint/checkpoint.h"

namespace periscope {

/// Kinds of faults of stored weights; docs/checkpoints.md defines them.
enum class Fault { non_finite, gains, eps, zeros, repeated_rows, mean_rows, outliers, tied_copies };
inline constexpr std::array<std::string_view, 8> fault_names{"non-finite",    "gains",     "eps",      "zeros",
                                                             "repeated-rows", "mean-rows", "outliers", "tied-copies"};
static_assert(are_names_of<Fault>(fault_names));
[[nodiscard]] constexpr std::string_view name_of(Fault fault) { return fault_names[static_cast<std::size_t>(fault)]; }

struct Finding {
  Fault fault;
  std::string tensor;
  std::string found, expected;
};

/// Checks the weights of a checkpoint, which may be opened with TiedCopies::may_differ. Findings are ordered by tensor,
/// followed by those about all gains, ε and copies. Reads every used tensor once, in blocks of rows, and embedding
/// tables twice. Calls `after_row` once with every row's size. Throws ConfigError for an unknown name in `ignored`.
[[nodiscard]] std::vector<Finding> check_weights(
    const Checkpoint& checkpoint, const std::vector<std::string>& ignored = {},
    const std::function<void(std::uint64_t)>& after_row = [](std::uint64_t) {});

/// Returns an object with the kind, tensor, found and expected of a finding.
[[nodiscard]] nlohmann::ordered_json json_of(const Finding& finding);

}  // namespace periscope
