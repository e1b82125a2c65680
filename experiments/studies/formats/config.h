#pragma once

#include <string>
#include <vector>

#include "experiments/engine/settings/config.h"
#include "experiments/studies/formats/format_pass.h"
#include "sim/base/enumerators.h"

namespace periscope::formats {

/// The words of flags: false and true.
inline constexpr std::array<std::string_view, 2> accumulate_names{"f32", "format"};
inline constexpr std::array<std::string_view, 2> rounding_names{"nearest", "stochastic"};
inline constexpr std::array<std::string_view, 2> overflow_names{"infinity", "saturate"};

/// [formats]: in which formats a pass is run, and what of it is held in them.
struct FormatsConfig : config::Config {
  std::vector<std::string> format{"fp32", "bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "int8", "int4"};
  std::vector<std::string> covers{};  ///< parts; empty: all, of formats of 8 bits or fewer inputs and weights
  std::string rest = "bf16";          ///< the format of the other parts
  ScaleOver scale = ScaleOver::row;
  bool accumulates_in_format = false;  ///< sums of products with weight matrices, else in f32
  bool stochastic = false;
  bool saturates = false;    ///< numbers beyond the largest of a format
  double loss_scale = 1.0;   ///< factor of the loss's gradient, which is taken off again where gradients are compared
  double massive = 1.0;      ///< factor of the first features of the input in runs of their own; 1: no such runs
  int massive_features = 1;  ///< how many
  bool certificates = true;

  /// The configuration of what theory predicts, whose law is one of the forward pass: noise follows from measured
  /// gradients (T27).
  [[nodiscard]] config::Config without_gradients() const;
};

extern const Section<FormatsConfig> section;

/// The formats of the list. Throws ConfigError for an unknown one, for one that is there twice, for a format of `rest`
/// that is no floating one of at least 16 bits, for whole numbers without a scale, for unknown parts, and for a device
/// or a dtype that was asked for: numbers of the formats are held in f32 on the CPU.
std::vector<TensorFormat> checked_formats(const FormatsConfig& config);

/// Says how a pass of seed `seed` holds its tensors in `format`.
Holding holding_for(const FormatsConfig& config, const TensorFormat& format, std::uint64_t seed);

}  // namespace periscope::formats
