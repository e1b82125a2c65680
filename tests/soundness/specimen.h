#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "experiments/studies/verify/draw.h"
#include "sim/numerics/number_format.h"
#include "tests/soundness/held_weights.h"
#include "theory/certify/certificate.h"

namespace periscope::soundness {

/// A tiny checkpoint that is made to break a certificate: the shape and options of a family, weights of extreme
/// structure, and what may be fed to it.
struct Specimen {
  std::uint64_t seed = 0;
  std::uint32_t index = 0;
  std::string family;  ///< "any" for a random placement and options that no family combines
  ModelSpec model;
  theory::InputDomain domain;
  int tokens = 1;  ///< length of the sequences that are run
  std::map<ParameterId, Numbers> numbers;
  std::vector<std::string> structure;  ///< what is special, for people

  [[nodiscard]] std::int64_t parameters() const;
};

/// The families that specimens come from.
std::span<const std::string> specimen_families();

/// Draws shape and options of a family: width 1 … 24, one to three layers, head width 1 … 8, grouped keys, soft caps,
/// windows, QK-norm, biases, positions, tiny ε.
void draw_model(verify::Draw& draw, Specimen& specimen);

/// Draws its weights: normal, of rank one, constant rows, rows that cancel, spikes, signs, zeros, numbers near the
/// largest and the smallest of the format; gains that are huge, tiny, negative or zero; biases that cancel what comes
/// out of a norm; gates that equal what they gate; tables with one huge row, equal rows or constant rows.
void draw_weights(verify::Draw& draw, const NumberFormat& format, Specimen& specimen);

/// A random specimen, a function of its arguments alone.
Specimen generate_specimen(std::uint64_t seed, std::uint32_t index, const NumberFormat& format);

/// The group of parameters whose scale is tuned.
enum class Knob { tables, gains, outputs, all_matrices, biases, head };
inline constexpr std::array<std::string_view, 6> knob_names{"tables",       "gains",  "output matrices",
                                                            "all matrices", "biases", "head"};

/// Returns the numbers with those of the knob multiplied by a factor, then all rounded to the format.
std::map<ParameterId, Numbers> turned(const Specimen& specimen, Knob knob, double factor, const NumberFormat& format);

}  // namespace periscope::soundness
