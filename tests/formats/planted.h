#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/studies/formats/formats.h"
#include "tests/formats/stack.h"

/// Planted readings of `formats`: raw numbers of which no two are alike, so that a result which is made of the wrong
/// ones shows. What is made of them is computed again by the tests.
namespace periscope::testing {

/// Positive, between 0.3 and 1.7.
inline double irregular(std::size_t i) { return 1.0 + 0.7 * std::sin(12.9898 * static_cast<double>(i) + 78.233); }

/// Mean and standard error, by their definitions.
struct MeanAndError {
  double mean, error;
};
inline MeanAndError mean_and_error(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0.0;
  for (const double v : x) mean += v / n;
  double squares = 0.0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / (n - 1.0) / n)};
}

/// Two stacks, Pre-LN of one layer and Peri-LN of two, in f64, FP16 and INT8, with and without massive features: their
/// shapes, signals and names differ.
struct PlantedReadings {
  static constexpr std::size_t formats = 3;
  static constexpr std::size_t variants = 2;
  static constexpr std::size_t seeds = 5;
  static constexpr std::uint64_t first_seed = 70;

  formats::FormatsConfig config;
  formats::FormatsResult result;
  std::vector<std::vector<formats::SeedReading>> readings;  ///< [stack][seed]

  PlantedReadings() : config(small_config("pre", {"fp16", "int8"})) {
    config.massive = 3.0;
    config.run.seeds = static_cast<int>(seeds);
    config.run.seed = first_seed;
    std::size_t number = 0;
    for (const auto& [placement, layers] : {std::pair("pre", 1), {"peri", 2}}) {
      formats::FormatsStack stack;
      stack.spec = small_config(placement, {}).base;
      stack.spec.model.layers = layers;
      stack.sites = formats::compared_sites(stack.spec.model, true);
      const std::size_t places = formats::places_of(stack.spec.model);
      const std::size_t curves = stack.sites.size() * places;
      for (const char* name : {"fp64", "fp16", "int8"}) {
        formats::FormatResult& format = stack.formats.emplace_back();
        format.name = name;
        for (std::size_t v = 0; v < variants; ++v) {
          formats::Variant& variant = format.variants.emplace_back();
          variant.numbers.resize(curves * formats::measure_names.size());
          variant.second_moment_drift.resize(curves);
          variant.variance_drift.resize(curves);
          if (format.name != "fp64") variant.rounding.resize(formats::part_names.size() * places);
        }
      }
      std::vector<formats::SeedReading>& of_stack = readings.emplace_back();
      for (std::size_t seed = 0; seed < seeds; ++seed) {
        formats::SeedReading reading;
        for (std::size_t v = 0; v < variants; ++v) {
          std::vector<formats::PassReading>& passes = reading.passes.emplace_back();
          for (std::size_t f = 0; f < formats; ++f) {
            formats::PassReading pass;
            const auto fill = [&](std::vector<double>& values, std::size_t count) {
              for (std::size_t i = 0; i < count; ++i) values.push_back(irregular(number++));
            };
            fill(pass.numbers, curves * formats::measure_names.size());
            if (f > 0) fill(pass.rounding, formats::part_names.size() * places);
            if (f > 0) fill(pass.predicted, places - 1);
            passes.push_back(pass);
          }
        }
        of_stack.push_back(reading);
      }
      result.stacks.push_back(std::move(stack));
    }
  }

  /// Adds all seeds, as a run does.
  void add_all() {
    for (std::size_t s = 0; s < result.stacks.size(); ++s) {
      for (std::size_t seed = 0; seed < seeds; ++seed) {
        formats::add(result.stacks[s], readings[s][seed], first_seed + seed, seed == 0);
      }
    }
  }

  [[nodiscard]] std::size_t places(std::size_t stack) const {
    return formats::places_of(result.stacks[stack].spec.model);
  }
  /// Where a number of a reading stands: [site, measure, place].
  [[nodiscard]] std::size_t position(std::size_t stack, std::size_t site, formats::Measure measure,
                                     std::size_t place) const {
    return (site * formats::measure_names.size() + static_cast<std::size_t>(measure)) * places(stack) + place;
  }
  [[nodiscard]] std::size_t site(std::size_t stack, Signal signal, Pass pass = Pass::forward) const {
    const auto& sites = result.stacks[stack].sites;
    for (std::size_t i = 0; i < sites.size(); ++i) {
      if (sites[i].pass == pass && sites[i].signal == signal) return i;
    }
    return sites.size();
  }
  /// A number of every seed.
  [[nodiscard]] std::vector<double> raw(std::size_t stack, std::size_t format, std::size_t variant, std::size_t site,
                                        formats::Measure measure, std::size_t place) const {
    std::vector<double> values;
    for (const formats::SeedReading& reading : readings[stack]) {
      values.push_back(reading.passes[variant][format].numbers[position(stack, site, measure, place)]);
    }
    return values;
  }
  /// Of every seed: a number over its value in f64, minus 1.
  [[nodiscard]] std::vector<double> drift(std::size_t stack, std::size_t format, std::size_t variant, std::size_t site,
                                          formats::Measure measure, std::size_t place) const {
    std::vector<double> values = raw(stack, format, variant, site, measure, place);
    const std::vector<double> exact = raw(stack, 0, variant, site, measure, place);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i] / exact[i] - 1.0;
    return values;
  }
};

}  // namespace periscope::testing
