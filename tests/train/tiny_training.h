#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/train/trainer.h"
#include "tests/support/targets.h"

namespace periscope::testing {

/// Numbers of parameters by the names of sim/model/parameters.h.
using NamedNumbers = std::map<std::string, std::vector<double>>;

/// tiny_stack() with that placement, which reads tokens of the synthetic language.
StackSpec trained_stack(std::string_view placement);

/// A few steps on four sequences each.
TrainSpec few_steps(OptimizerKind optimizer);

/// The synthetic language; windows of up to 1000 tokens.
const Corpus& synthetic_language();

Trainer trainer_of(const Target& target, const StackSpec& spec, const TrainSpec& train, std::uint64_t seed = 3);

/// A state's parameters on the host, and what the optimizer remembers of them: "mean.NAME", "square.NAME".
NamedNumbers parameters_of(const Backend& ops, const TrainingState& state);
NamedNumbers memory_of(const Backend& ops, const TrainingState& state);

/// Fails the running test unless all numbers have the same names and the same bits.
void check_same_numbers(const std::string& what, const NamedNumbers& actual, const NamedNumbers& expected);

}  // namespace periscope::testing
