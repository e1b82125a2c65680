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

/// Values of a parameter, row-major.
struct Numbers {
  Tensor::Index rows = 0;
  Tensor::Index cols = 0;
  std::vector<double> values;
};
using Parameters = std::map<ParameterId, Numbers>;

/// A tiny adversarial checkpoint: shape and options of a family, weights with extreme structure, and the input domain.
struct Specimen {
  std::uint32_t index = 0;
  std::string family;  ///< "any": random placement and any combination of options
  ModelSpec model;
  theory::InputDomain domain;
  int tokens = 1;  ///< sequence length
  Parameters numbers;
  std::vector<std::string> structure;  ///< descriptions of weights, for the report
};

/// Returns all values of Specimen::family.
std::span<const std::string> specimen_families();

/// Draws shape and options of a family: width 1 … 24, one to three layers, head width 1 … 8, grouped keys, soft caps,
/// windows, QK-norm, biases, positions, tiny ε.
void draw_model(verify::Draw& draw, Specimen& specimen);

/// Draws weights. Matrices: normal, rank one, constant rows, cancelling rows, spikes, signs, zeros, numbers near the
/// largest and the smallest of the format. Gains: huge, tiny, negative or zero. Biases may cancel a norm's output, and
/// gate matrices may equal up matrices. Tables: one huge row, equal rows or constant rows.
void draw_weights(verify::Draw& draw, const NumberFormat& format, Specimen& specimen);

/// Returns a random specimen. Deterministic.
Specimen generate_specimen(std::uint64_t seed, std::uint32_t index, const NumberFormat& format);

/// Group of parameters whose scale is tuned.
enum class Knob { tables, gains, outputs, all_matrices, biases, head };
inline constexpr std::array<std::string_view, 6> knob_names{"tables",       "gains",  "output matrices",
                                                            "all matrices", "biases", "head"};

/// Returns the parameters, with those of the knob multiplied by a factor, rounded to the format.
Parameters turned(const Specimen& specimen, Knob knob, double factor, const NumberFormat& format);

/// Returns the parameters as f64 tensors of a backend.
ResidentWeights weights_of(const Backend& backend, const ModelSpec& model, const Parameters& numbers);

/// Token ids, or real vectors [N, D].
using SpecimenInput = std::variant<std::vector<int>, Tensor>;

/// Returns inputs of a specimen. Tokens: repetitions of every token, and random sequences. Real vectors: zero,
/// constant, nearly constant, one huge entry, corners of the domain, tiny with squares that underflow, and normal. Also
/// the results of attacks in f64 on the largest bounds of `certificate`.
std::vector<SpecimenInput> inputs_for(verify::Draw& draw, const Specimen& specimen, const StackContext& exact,
                                      const theory::Certificate& certificate, const NumberFormat& format);

/// Returns the input with one changed token, or a few changed entries.
SpecimenInput changed(verify::Draw& draw, const Specimen& specimen, const Backend& ops, const SpecimenInput& input,
                      const NumberFormat& format);

}  // namespace periscope::soundness
