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

/// A tiny adversarial checkpoint: shape and options of a family, weights of extreme structure, and its input domain.
struct Specimen {
  std::uint32_t index = 0;
  std::string family;  ///< "any": random placement and options
  ModelSpec model;
  theory::InputDomain domain;
  int tokens = 1;  ///< length of sequences
  Parameters numbers;
  std::vector<std::string> structure;  ///< structure of weights, for the report
};

std::vector<std::string> specimen_families();

/// Draws shape and options of a family: width 1 … 24, one to three layers, head width 1 … 8, grouped keys, soft caps,
/// windows, QK-norm, biases, positions, tiny ε.
void draw_model(verify::Draw& draw, Specimen& specimen);

/// Draws weights: normal, rank one, constant or cancelling rows, spikes, signs, zeros, numbers near the largest and the
/// smallest of the format; huge, tiny, negative or zero gains; biases that cancel a norm's output; gates equal to W_up.
void draw_weights(verify::Draw& draw, const NumberFormat& format, Specimen& specimen);

/// Draws a specimen; deterministic in its arguments.
Specimen generate_specimen(std::uint64_t seed, std::uint32_t index, const NumberFormat& format);

/// A group of parameters whose scale is tuned.
enum class Knob { tables, gains, outputs, all_matrices, biases, head };
inline constexpr std::array<std::string_view, 6> knob_names{"tables",       "gains",  "output matrices",
                                                            "all matrices", "biases", "head"};

/// Multiplies the parameters of the knob by a factor and rounds all parameters to the format.
Parameters turned(const Specimen& specimen, Knob knob, double factor, const NumberFormat& format);

/// Returns the numbers as f64 tensors of a backend.
ResidentWeights weights_of(const Backend& backend, const ModelSpec& model, const Parameters& numbers);

/// Token ids, or real vectors [N, D].
using SpecimenInput = std::variant<std::vector<int>, Tensor>;

/// Makes inputs: every token alone and random sequences, or real vectors that are zero, constant, nearly constant, with
/// one huge entry, at corners of the domain, tiny (squares underflow) or normal. Adds the inputs that an attack in f64
/// found to reach the largest shares of the bounds.
std::vector<SpecimenInput> inputs_for(verify::Draw& draw, const Specimen& specimen, const StackContext& exact,
                                      const theory::Certificate& certificate, const NumberFormat& format);

/// Returns the input with one token or a few entries changed.
SpecimenInput changed(verify::Draw& draw, const Specimen& specimen, const Backend& ops, const SpecimenInput& input,
                      const NumberFormat& format);

}  // namespace periscope::soundness
