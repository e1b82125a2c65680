#pragma once

#include <tuple>
#include <vector>

#include "experiments/studies/formats/config.h"
#include "experiments/studies/formats/deviation.h"
#include "sim/base/enumerators.h"

namespace periscope::formats {

/// The input's features: as configured, or with features made massive.
enum class Features { plain, massive };
inline constexpr std::array<std::string_view, 2> features_names{"plain", "massive"};
static_assert(are_names_of<Features>(features_names));

/// The variants of a run: massive features only if their factor is not 1.
[[nodiscard]] inline std::size_t variants_of(const FormatsConfig& config) { return config.massive == 1.0 ? 1 : 2; }

/// One seed of a stack: a pass in f64, and one in every format, for every variant of the input.
struct SeedReading {
  std::vector<std::vector<PassReading>> passes;  ///< [variant][0: f64, then the formats]
};

/// Members, for the cache.
inline auto parts(FirstOverflow& o) { return std::tie(o.found, o.sublayer, o.signal); }
inline auto parts(PassReading& p) { return std::tie(p.numbers, p.rounding, p.predicted, p.forward, p.backward); }
inline auto parts(SeedReading& r) { return std::tie(r.passes); }

/// Runs seed `seed` of `spec`: all passes have the same weights, input and labels. With run.backward gradients too.
SeedReading read_seed(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                      const StackSpec& spec, std::uint64_t seed);

}  // namespace periscope::formats
