#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "experiments/studies/verify/draw.h"
#include "sim/model/context.h"
#include "sim/model/resident_weights.h"
#include "sim/numerics/number_format.h"
#include "theory/certify/certificate.h"

namespace periscope::soundness {

/// A parameter as plain numbers, row-major.
struct Numbers {
  Tensor::Index rows = 0;
  Tensor::Index cols = 0;
  std::vector<double> values;
};
using Parameters = std::map<ParameterId, Numbers>;

/// A tiny checkpoint made to break a certificate: shape and options of a family, weights of extreme structure, and the
/// inputs that it may get.
struct Specimen {
  std::uint32_t index = 0;
  std::string family;  ///< "any" for a random placement and options that no family combines
  ModelSpec model;
  theory::InputDomain domain;
  int tokens = 1;  ///< length of the sequences that are run
  Parameters numbers;
  std::vector<std::string> structure;  ///< of its weights, for the report
};

/// The families that specimens come from.
std::span<const std::string> specimen_families();

/// Draws shape and options of a family: width 1 … 24, one to three layers, head width 1 … 8, grouped keys, soft caps,
/// windows, QK-norm, biases, positions, tiny ε.
void draw_model(verify::Draw& draw, Specimen& specimen);

/// Draws its weights: normal, of rank one, constant rows, rows that cancel, spikes, signs, zeros, numbers near the
/// largest and the smallest of the format; gains that are huge, tiny, negative or zero; biases that cancel a norm's
/// output; gates that equal what they gate; tables with one huge row, equal rows or constant rows.
void draw_weights(verify::Draw& draw, const NumberFormat& format, Specimen& specimen);

/// A random specimen, a function of its arguments alone.
Specimen generate_specimen(std::uint64_t seed, std::uint32_t index, const NumberFormat& format);

/// The group of parameters whose scale is tuned.
enum class Knob { tables, gains, outputs, all_matrices, biases, head };
inline constexpr std::array<std::string_view, 6> knob_names{"tables",       "gains",  "output matrices",
                                                            "all matrices", "biases", "head"};

/// Returns the numbers with those of the knob multiplied by a factor, then all rounded to the format.
Parameters turned(const Specimen& specimen, Knob knob, double factor, const NumberFormat& format);

/// The numbers as f64 tensors of a backend.
ResidentWeights weights_of(const Backend& backend, const ModelSpec& model, const Parameters& numbers);

/// Token ids, or real vectors [N, D].
using SpecimenInput = std::variant<std::vector<int>, Tensor>;

/// Makes the inputs of a specimen: every token alone, random sequences; real vectors that are zero, constant, constant
/// but for a little, one huge entry, corners of the domain, tiny ones whose squares vanish, normal ones. And what an
/// attack in f64 found to come nearest to the largest bounds of `certificate`.
std::vector<SpecimenInput> inputs_for(verify::Draw& draw, const Specimen& specimen, const StackContext& exact,
                                      const theory::Certificate& certificate, const NumberFormat& format);

/// Returns the input with one token changed, or a few entries.
SpecimenInput changed(verify::Draw& draw, const Specimen& specimen, const Backend& ops, const SpecimenInput& input,
                      const NumberFormat& format);

}  // namespace periscope::soundness
