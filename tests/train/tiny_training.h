#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/train/trainer.h"
#include "tests/support/targets.h"

namespace periscope::testing {

using NamedNumbers = std::map<std::string, std::vector<double>>;

/// tiny_stack() with the placement and tokens of the synthetic language.
StackSpec trained_stack(std::string_view placement);

/// Six steps of four sequences.
TrainSpec few_steps(OptimizerKind optimizer);

/// The synthetic corpus, for windows of up to 1000 tokens.
const Corpus& synthetic_language();

Trainer trainer_of(const Target& target, const StackSpec& spec, const TrainSpec& train, std::uint64_t seed = 3);

/// Parameters of a state on the host, and their optimizer state as "mean.NAME" and "square.NAME".
NamedNumbers parameters_of(const Backend& ops, const TrainingState& state);
NamedNumbers memory_of(const Backend& ops, const TrainingState& state);

/// Fails the running test unless all numbers have the same names and the same bits.
void check_same_numbers(const std::string& what, const NamedNumbers& actual, const NamedNumbers& expected);

}  // namespace periscope::testing
