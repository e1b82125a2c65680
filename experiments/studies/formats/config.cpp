#include "experiments/studies/formats/formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::formats {
namespace {

// clang-format off
constexpr Key<FormatsConfig> keys[] = {
    {.name = "format", .field = &FormatsConfig::format, .meaning = "fp32, bf16, fp16, fp8_e5m2, fp8_e4m3, int8, int4, mxfp8_e5m2, mxfp8_e4m3, mxfp4, nvfp4: one run in each, and one in f64"},
    {.name = "covers", .field = &FormatsConfig::covers, .meaning = "tensors in this format: stream, norms, modules, inputs (of matrices), weights", .default_text = "all; inputs, weights for formats of 8 bits or fewer"},
    {.name = "rest", .field = &FormatsConfig::rest, .meaning = "format of the other tensors: fp32, bf16, fp16"},
    {.name = "scale", .field = word_field<&FormatsConfig::scale, scale_over_names>(), .meaning = "none, tensor, row, block: entries that share a scale in fp8, int8 and int4; for FP8 in inputs and weights only"},
    {.name = "block", .field = &FormatsConfig::block, .range = from_to(0, 1 << 20), .meaning = "number of consecutive features that share a scale in blocks; 0: 32, or 16 in nvfp4"},
    {.name = "accumulate", .field = word_field<&FormatsConfig::accumulates_in_format, accumulate_names>(), .meaning = "f32, format: precision of the partial sums of matrix products"},
    {.name = "rounding", .field = word_field<&FormatsConfig::stochastic, rounding_names>(), .meaning = "nearest (ties to even), stochastic"},
    {.name = "passes", .field = word_field<&FormatsConfig::backward_only, pass_names>(), .meaning = "both, backward: passes in which tensors are rounded; a pass without rounding is in f32"},
    {.name = "overflow", .field = word_field<&FormatsConfig::saturates, overflow_names>(), .meaning = "infinity (E4M3: NaN), saturate"},
    {.name = "loss_scale", .field = &FormatsConfig::loss_scale, .range = between(0, 1e30), .meaning = "factor applied to the loss in the backward pass, divided out before gradients are compared"},
    {.name = "massive", .field = &FormatsConfig::massive, .range = from_to(1, 1e6), .meaning = "factor applied to the massive features of the input in separate runs; 1: no separate runs"},
    {.name = "massive_features", .field = &FormatsConfig::massive_features, .range = from_to(1, 1 << 20), .meaning = "number of massive features"},
    {.name = "certificates", .field = &FormatsConfig::certificates, .meaning = "certify the first seed's weights in every floating-point format (T24)"},
};
// clang-format on

/// Looks up a number format by name. Throws ConfigError listing the known names.
TensorFormat format_called(std::string_view key, const std::string& word) {
  if (const auto found = find_tensor_format(word)) return *found;
  throw ConfigError(fmt::format("{}: {}: expected {}", key, shortened(word),
                                fmt::join(mapped(tensor_formats, &TensorFormat::name), ", ")));
}

}  // namespace

const Section<FormatsConfig> section{"formats", keys};

config::Config FormatsConfig::without_gradients() const {
  config::Config forward = *this;  // NOLINT(cppcoreguidelines-slicing): without the keys of formats
  forward.run.backward = false;
  return forward;
}

std::vector<TensorFormat> checked_formats(const FormatsConfig& config) {
  if (config.run.device != "cpu") {
    throw ConfigError(
        fmt::format("run.device = \"{}\": expected cpu, on which formats are emulated", shortened(config.run.device)));
  }
  if (config.run.dtype_choice) {
    throw ConfigError(fmt::format("run.dtype = \"{}\": expected formats.format instead", name_of(config.run.dtype)));
  }
  if (config.backward_only && !config.run.backward) {
    throw ConfigError("formats.passes = \"backward\": expected run.backward = true");
  }
  if (config.format.empty()) throw ConfigError("formats.format = []: expected at least one format");
  config::require_different("formats.format", config.format);
  config::require_different("formats.covers", config.covers);
  for (const std::string& part : config.covers) {
    if (std::ranges::find(part_names, part) == part_names.end()) {
      throw ConfigError(fmt::format("formats.covers: {}: expected {}", shortened(part), fmt::join(part_names, ", ")));
    }
  }
  if (format_called("formats.rest", config.rest).is_narrow()) {
    throw ConfigError(fmt::format("formats.rest = \"{}\": expected fp32, bf16 or fp16", config.rest));
  }
  for (const StackSpec& spec : config.stacks()) {
    if (config.massive_features <= spec.model.width) continue;
    throw ConfigError(fmt::format("formats.massive_features = {}: expected at most model.width = {}",
                                  config.massive_features, spec.model.width));
  }
  std::vector<TensorFormat> all;
  for (const std::string& word : config.format) {
    all.push_back(format_called("formats.format", word));
    if (all.back().is_integer() && config.scale == ScaleOver::nothing) {
      throw ConfigError(fmt::format("formats.scale = \"none\": expected tensor, row or block, which {} needs", word));
    }
  }
  return all;
}

FormatChoice format_choice_for(const FormatsConfig& config, const TensorFormat& format, std::uint64_t seed) {
  FormatChoice choice{
      .parts = {}, .sums = {}, .loss_scale = config.loss_scale, .seed = seed, .backward_only = config.backward_only};
  for (std::size_t p = 0; p < part_names.size(); ++p) {
    const Part part = static_cast<Part>(p);
    // By default formats of 8 bits or fewer cover matrix inputs and weights, as in W8A8 and FP8 linear layers, and
    // wider formats cover all parts.
    const bool covered = config.covers.empty() ? !format.is_narrow() || part >= Part::inputs
                                               : std::ranges::find(config.covers, part_names[p]) != config.covers.end();
    const bool scaled = covered && (format.is_integer() || (part >= Part::inputs && format.is_narrow()));
    choice.parts[p] = {.format = covered ? format : *find_tensor_format(config.rest),
                       .scale = scaled ? config.scale : ScaleOver::nothing,
                       .overflow = config.saturates ? Rounding::Overflow::saturate : Rounding::Overflow::by_format,
                       .stochastic = config.stochastic};
    if (config.block > 0) choice.parts[p].block = config.block;
  }
  const bool sums = !format.is_integer() && !format.has_block_scale() && format.floating.precision < 24;
  if (config.accumulates_in_format && sums) {
    choice.sums = format.floating;
  }
  return choice;
}

}  // namespace periscope::formats
