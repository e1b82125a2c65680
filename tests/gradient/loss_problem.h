#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/loss.h"
#include "sim/model/resident_weights.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// Values by parameter name (sim/model/parameters.h).
using Parameters = std::map<std::string, std::vector<double>>;

/// The loss of a stack as a function of its parameters and its input.
struct LossProblem {
  StackSpec spec;
  std::vector<int> ids;  ///< token input, which makes "embedding.weight" a parameter
  std::vector<int> labels;
  Parameters parameters;
  std::vector<double> input;  ///< Gaussian input [N, D]
  int sequences = 1;
};

/// Returns a problem with random weights, gains and biases: equal gains would hide swapped norms, zero biases would
/// hide a missing bias. Token input contains one id twice.
LossProblem loss_problem(const StackSpec& spec, std::uint64_t seed, int sequences = 1);

/// Adds a random bias to every matrix except tables.
void add_biases(LossProblem& problem, std::uint64_t seed);

/// Results of a backward pass, on the host.
struct Gradients {
  double loss = 0.0;
  Parameters parameters;
  std::vector<double> input;                                   ///< gradient before the embedding norm
  std::vector<double> depth_zero;                              ///< gradient after the embedding norm
  std::map<std::pair<int, Signal>, std::vector<double>> site;  ///< gradient of a signal by sublayer
};

Gradients gradients_of(const Target& target, const LossProblem& problem);

/// Returns the loss on the reference.
double loss_at(const LossProblem& problem, const Hooks& hooks = {});

/// Copies the parameters to a target.
ResidentWeights weights_of(const Target& target, const LossProblem& problem);

/// Rounding error of the loss: stack_error for the widest sum, times 1 + loss.
double loss_rounding(const LossProblem& problem, double loss);

/// Step of finite differences; smaller for ReLU, where a kink between the points of the stencil must be improbable.
double step_for(const ModelSpec& model);

}  // namespace periscope::testing
