#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

/// Returns the frequencies of a head in which only the first head_dim·partial features rotate; 0 for other pairs. As in
/// transformers, the number of features is rounded down, and the number of pairs up.
std::vector<double> partial_frequencies(int head_dim, double theta, double partial) {
  const int rotated = static_cast<int>(head_dim * partial);
  std::vector<double> frequencies(static_cast<std::size_t>(head_dim / 2), 0.0);
  for (int i = 0; i < (rotated + 1) / 2; ++i) {
    frequencies[static_cast<std::size_t>(i)] = std::pow(theta, -2.0 * i / rotated);
  }
  return frequencies;
}

/// Applies YaRN: divides the frequency of pair i by `factor` above a range of i, leaves it unchanged below, and
/// interpolates linearly inside. The range starts and ends where beta_fast and beta_slow turns fit into the original
/// context.
void scale_yarn(AttentionRule& rule, ConfigReader& rope, double theta, int context) {
  if (theta <= 1.0) throw rope.malformed_value("rope_theta", "above 1 for YaRN");
  const double factor = rope.positive("factor");
  const double original = rope.integer_or("original_max_position_embeddings", context, max_tokens);
  const double fast = rope.positive_or_none("beta_fast", 32.0).value_or(32.0);
  const double slow = rope.positive_or_none("beta_slow", 1.0).value_or(1.0);
  const std::optional<double> scale = rope.positive_or_none("attention_factor", std::nullopt);
  const std::optional<double> above = rope.positive_or_none("mscale", std::nullopt);
  const std::optional<double> below = rope.positive_or_none("mscale_all_dim", std::nullopt);
  rope.must_be("truncate", true);
  const auto logarithmic = [&](double m) { return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; };
  rule.rope_scale = scale ? *scale : above && below ? logarithmic(*above) / logarithmic(*below) : logarithmic(1.0);
  const std::size_t pairs = std::ranges::count_if(rule.rope_frequencies, [](double f) { return f != 0.0; });
  const double features = 2.0 * static_cast<double>(pairs);
  const auto pair_with = [&](double turns) {
    return features * std::log(original / (turns * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_with(fast)), 0.0);
  double high = std::min(std::ceil(pair_with(slow)), features - 1.0);
  if (high == low) high += 0.001;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double share = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rule.rope_frequencies[i] *= share / factor + (1.0 - share);
  }
}

/// Applies LongRoPE: divides every frequency by an entry of short_factor. long_factor is used for sequences above the
/// original context length, which are unsupported if the lists differ.
void scale_longrope(AttentionRule& rule, ConfigReader& rope, ModelSpec& m, const RopeDefaults& defaults) {
  constexpr std::string_view original_key = "original_max_position_embeddings";
  const int original =
      rope.integer_or(original_key, defaults.original_context.value_or(defaults.context), max_tokens, 2);
  if (defaults.original_context && original != *defaults.original_context) {
    throw rope.unsupported_value(original_key, "the same as outside of rope_parameters");
  }
  const double factor =
      rope.positive_or_none("factor", std::nullopt).value_or(static_cast<double>(defaults.context) / original);
  const std::optional<double> scale = rope.positive_or_none("attention_factor", std::nullopt);
  rule.rope_scale = scale           ? *scale
                    : factor <= 1.0 ? 1.0
                                    : std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(original)));
  const std::size_t pairs = std::ranges::count_if(rule.rope_frequencies, [](double f) { return f != 0.0; });
  const auto factors = [&](std::string_view key) {
    const std::vector<double> all = rope.positives(key);
    if (all.size() != pairs) throw rope.malformed_value(key, fmt::format("{} numbers, one per rotated pair", pairs));
    return all;
  };
  const std::vector<double> divisors = factors("short_factor");
  for (std::size_t i = 0; i < pairs; ++i) rule.rope_frequencies[i] /= divisors[i];
  if (factors("long_factor") != divisors && (m.rope_tokens == 0 || original < m.rope_tokens)) m.rope_tokens = original;
}

}  // namespace

std::vector<double> proportional_frequencies(int head_dim, double theta, double partial) {
  std::vector<double> frequencies = rope_frequencies(head_dim, theta);
  std::fill(frequencies.begin() + static_cast<int>(std::floor(partial * head_dim / 2.0)), frequencies.end(), 0.0);
  return frequencies;
}

AttentionRule read_rope_object(ConfigReader& rope, ModelSpec& m, const RopeDefaults& defaults) {
  constexpr std::string_view partial_key = "partial_rotary_factor";
  const int head_dim = defaults.head_dim > 0 ? defaults.head_dim : m.head_dim;
  const std::string type = read_type(rope);
  const bool proportional = defaults.is_proportional && type == "proportional";
  const bool has_partial = defaults.partial && (proportional || !defaults.is_proportional);
  if (!has_partial) rope.must_be(partial_key, 1.0);
  const double partial = has_partial ? rope.positive_or(partial_key, *defaults.partial) : 1.0;
  if (partial > 1.0) throw rope.malformed_value(partial_key, "at most 1");
  const double theta =
      defaults.theta > 0.0 ? rope.positive_or("rope_theta", defaults.theta) : rope.positive("rope_theta");
  const bool longrope = type == "longrope" || (defaults.is_phi3 && (type == "su" || type == "yarn"));
  if ((longrope || type == "yarn") && static_cast<int>(head_dim * partial) % 2 != 0) {
    throw rope.unsupported_value(partial_key, "an even number of rotated features");
  }
  AttentionRule rule{.rope_frequencies = proportional ? proportional_frequencies(head_dim, theta, partial)
                                                      : partial_frequencies(head_dim, theta, partial)};
  if (longrope) {
    scale_longrope(rule, rope, m, defaults);
  } else if (proportional || (type == "linear" && !defaults.is_phi3)) {
    const double factor = proportional ? rope.positive_or("factor", 1.0) : rope.positive("factor");
    for (double& f : rule.rope_frequencies) f /= factor;
  } else if (type == "llama3" && !defaults.is_phi3) {
    scale_llama3(rule.rope_frequencies, rope, defaults.context);
  } else if (type == "yarn") {
    scale_yarn(rule, rope, theta, defaults.context);
  } else if (type != "default") {
    throw rope.unsupported_value(rope.has("rope_type") ? "rope_type" : "type",
                                 defaults.is_phi3           ? "default or longrope"
                                 : defaults.is_proportional ? "default, proportional, linear, llama3, yarn or longrope"
                                                            : "default, linear, llama3, yarn or longrope");
  }
  rope.finish();
  return rule;
}

AttentionRule read_rope(ConfigReader& config, ModelSpec& m, RopeDefaults defaults) {
  const std::string_view theta_key = defaults.theta_key;
  const std::string_view partial_key = defaults.partial_key;
  if (!defaults.partial) config.must_be(partial_key, 1.0);
  if (!defaults.is_phi3) config.must_be("original_max_position_embeddings", nullptr);
  const bool current = config.has("rope_parameters");
  if (current && config.has("rope_scaling") && !config.table("rope_scaling").same_as(config.table("rope_parameters"))) {
    throw config.unsupported_value("rope_scaling", "the same as rope_parameters, or only one of the two");
  }
  const bool plain = !current && !config.has("rope_scaling");
  const auto read = [&](std::string_view key, double& value) {
    if (plain) {
      value = config.positive_or(key, value);
    } else if (current ? config.has(key) : config.is_given(key)) {
      value = config.positive(key);
    }
  };
  if (plain) {
    config.must_be("rope_parameters", nullptr);
    config.must_be("rope_scaling", nullptr);
  }
  read(theta_key, defaults.theta);
  if (defaults.partial) read(partial_key, *defaults.partial);
  if (plain) {
    if (defaults.partial && *defaults.partial > 1.0) throw config.malformed_value(partial_key, "at most 1");
    return {.rope_frequencies = partial_frequencies(m.head_dim, defaults.theta, defaults.partial.value_or(1.0))};
  }
  ConfigReader rope = config.table(current ? "rope_parameters" : "rope_scaling");
  const auto require_same = [&](std::string_view key, std::string_view inner, double value) {
    if (config.has(key) && rope.has(inner) && rope.positive(inner) != value) {
      throw config.unsupported_value(key, "the same as in rope_parameters");
    }
  };
  require_same(theta_key, "rope_theta", defaults.theta);
  if (defaults.partial) require_same(partial_key, "partial_rotary_factor", *defaults.partial);
  return read_rope_object(rope, m, defaults);
}

RopePair read_ropes(ConfigReader& config, ModelSpec& m, const RopeDefaults& full, double local_theta,
                    std::string_view local_key) {
  const bool has_local = !local_key.empty();
  if (!config.has("rope_parameters")) {
    RopePair pair{.full = read_rope(config, m, full), .sliding = {}};
    const double theta = has_local ? config.positive_or(local_key, local_theta) : local_theta;
    pair.sliding.rope_frequencies = rope_frequencies(m.head_dim, theta);
    return pair;
  }
  config.must_be("rope_scaling", nullptr);
  ConfigReader ropes = config.table("rope_parameters");
  const auto with_theta = [&](std::string_view kind, RopeDefaults defaults, std::string_view theta_key) {
    if (theta_key.empty() || !config.has(theta_key)) return defaults;
    defaults.theta = config.positive(theta_key);
    if (ropes.table(kind).positive_or("rope_theta", defaults.theta) != defaults.theta) {
      throw config.unsupported_value(theta_key, "the same as in rope_parameters");
    }
    return defaults;
  };
  const RopeDefaults sliding{.theta = local_theta, .context = full.context};
  return read_rope_pair(config, m, with_theta("full_attention", full, "rope_theta"),
                        with_theta("sliding_attention", sliding, local_key));
}

RopePair read_rope_pair(ConfigReader& config, ModelSpec& m, const RopeDefaults& full, const RopeDefaults& sliding) {
  ConfigReader ropes = config.table("rope_parameters");
  ConfigReader of_full = ropes.table("full_attention");
  ConfigReader of_sliding = ropes.table("sliding_attention");
  ropes.finish();
  return {.full = read_rope_object(of_full, m, full), .sliding = read_rope_object(of_sliding, m, sliding)};
}

std::vector<std::int64_t> rope_order(const std::vector<double>& frequencies, bool interleaved) {
  const std::int64_t half = std::ssize(frequencies);
  const std::int64_t pairs = half - std::ranges::count(frequencies, 0.0);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 2 * half; ++i) {
    const std::int64_t pair = i % half;
    const bool second = i >= half;
    if (pair >= pairs) {
      order.push_back(second ? i : pairs + pair);  // 2 pairs + (pair − pairs)
    } else {
      order.push_back(interleaved ? 2 * pair + (second ? 1 : 0) : second ? pairs + pair : pair);
    }
  }
  return order;
}

}  // namespace periscope
