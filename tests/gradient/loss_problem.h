#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/loss.h"
#include "sim/model/resident_weights.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// Numbers by the names of sim/model/parameters.h.
using Parameters = std::map<std::string, std::vector<double>>;

/// A stack's loss as a function of all its numbers.
struct LossProblem {
  StackSpec spec;
  std::vector<int> ids;  ///< token input: "embedding.weight" is then a parameter
  std::vector<int> labels;
  Parameters parameters;
  std::vector<double> input;  ///< Gaussian input [N, D]
  int sequences = 1;
};

/// Weights of one seed, but with gains and biases drawn at random: equal gains would hide a norm that uses
/// another's, and zero biases one that is left out. Token input reads one id twice and some never.
LossProblem loss_problem(const StackSpec& spec, std::uint64_t seed, int sequences = 1);

/// Gives every matrix that is no table a random bias.
void add_biases(LossProblem& problem, std::uint64_t seed);

/// What a backward pass says, on the host.
struct Gradients {
  double loss = 0.0;
  Parameters parameters;
  std::vector<double> input;                                   ///< before the embedding norm
  std::vector<double> depth_zero;                              ///< after it
  std::map<std::pair<int, Signal>, std::vector<double>> site;  ///< by sublayer
};

Gradients gradients_of(const Target& target, const LossProblem& problem);

/// The loss alone, on the reference.
double loss_at(const LossProblem& problem, const Hooks& hooks = {});

/// The problem's parameters on a target.
ResidentWeights weights_of(const Target& target, const LossProblem& problem);

/// What rounding does to the loss: stack_error for the spec's widest sum, times the loss.
double loss_rounding(const LossProblem& problem, double loss);

/// Step of finite differences: small against the weights' size, and so small for ReLU that a kink between the
/// stencil's points is improbable.
double step_for(const ModelSpec& model);

}  // namespace periscope::testing
