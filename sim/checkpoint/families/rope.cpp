
#include <numbers>

#include "sim/checkpoint/families/families.h"

namespace periscope {
namespace {

/// Reads rope_type, called "type" in older files.
std::string read_type(ConfigReader& rope) {
  if (rope.has("rope_type") && rope.has("type") && rope.text("rope_type") != rope.text("type")) {
    throw rope.malformed_value("type", "the same as rope_type");
  }
  return rope.text_or(rope.is_given("rope_type") ? "rope_type" : "type", "default");
}

/// Applies llama3 scaling. A frequency f has the wavelength λ = 2π/f tokens. λ > original/low gives f/factor, λ <
/// original/high gives f, and in between the two are interpolated linearly in original/λ.
void scale_llama3(std::vector<double>& frequencies, ConfigReader& rope, int context) {
  const double factor = rope.positive("factor");
  const double low = rope.positive("low_freq_factor");
  const double high = rope.positive("high_freq_factor");
  if (high <= low) throw rope.malformed_value("high_freq_factor", "more than low_freq_factor");
  const double original = rope.integer_or("original_max_position_embeddings", context, max_tokens);
  for (double& f : frequencies) {
    const double waves = original * f / (2.0 * std::numbers::pi);  // number of wavelengths in the original context
    if (waves < low) {
      f /= factor;
    } else if (waves <= high) {
      const double smooth = (waves - low) / (high - low);
      f = (1.0 - smooth) * f / factor + smooth * f;
    }
  }
}

}  // namespace

std::vector<double> scaled_frequencies(int head_dim, double base, double divisor) {
  std::vector<double> frequencies = rope_frequencies(head_dim, base);
  for (double& f : frequencies) f /= divisor;
  return frequencies;
}

std::vector<double> read_rope_object(ConfigReader& rope, int head_dim, double fallback_theta, int context) {
  rope.must_be("partial_rotary_factor", 1.0);
  const double theta = rope.positive_or("rope_theta", fallback_theta);
  const std::string type = read_type(rope);
  std::vector<double> frequencies = scaled_frequencies(head_dim, theta);
  if (type == "linear") {
    frequencies = scaled_frequencies(head_dim, theta, rope.positive("factor"));
  } else if (type == "llama3") {
    scale_llama3(frequencies, rope, context);
  } else if (type != "default") {
    throw rope.unsupported_value(rope.has("rope_type") ? "rope_type" : "type", "default, linear or llama3");
  }
  rope.finish();
  return frequencies;
}

std::vector<double> read_rope(ConfigReader& config, int head_dim, double fallback_theta, int context) {
  config.must_be("partial_rotary_factor", 1.0);
  config.must_be("original_max_position_embeddings", nullptr);
  const bool current = config.has("rope_parameters");
  double theta = fallback_theta;
  if (current ? config.has("rope_theta") : config.is_given("rope_theta")) theta = config.positive("rope_theta");
  if (current && config.has("rope_scaling") && !config.table("rope_scaling").same_as(config.table("rope_parameters"))) {
    throw config.unsupported_value("rope_scaling", "the same as rope_parameters, or only one of the two");
  }
  if (!current && !config.has("rope_scaling")) {
    config.must_be("rope_parameters", nullptr);
    config.must_be("rope_scaling", nullptr);
    if (!config.is_given("rope_theta")) theta = config.positive_or("rope_theta", fallback_theta);
    return scaled_frequencies(head_dim, theta);
  }
  ConfigReader rope = config.table(current ? "rope_parameters" : "rope_scaling");
  if (config.has("rope_theta") && rope.has("rope_theta") && rope.positive("rope_theta") != theta) {
    throw config.unsupported_value("rope_theta", "the same as in rope_parameters");
  }
  return read_rope_object(rope, head_dim, theta, context);
}

}  // namespace periscope
