#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/run/stacks.h"
#include "sim/spec/weight_scales.h"
#include "theory/predict/predict.h"

/// Simulation and prediction of stacks of random weights with given scales.
namespace periscope::testing {

/// Returns standard normal numbers of the stream `place`.
std::vector<double> normals(std::uint64_t place, std::size_t count);

/// Lognormal scales with a log deviation of 0.3. Gains are correlated between norms by channel, as in trained models.
/// Gains of norms C multiply over depth and vary a fifth as much; otherwise a few channels would dominate the stream.
WeightScales uneven_scales(const StackSpec& spec);

/// 4 layers of width 512 on 8 tokens.
StackSpec scaled_stack(std::string_view placement);
StackSpec with(StackSpec spec, WeightScales scales);

struct Measured {
  StackSpec spec;
  Profile profile;
  int seeds;
};

/// Measures the stack. 32 seeds suffice to reject nearly all wrong theories of these tests.
Measured measure(const StackSpec& spec, config::WeightsChoice weights = config::WeightsChoice::dense, int seeds = 32);

/// Returns the verdict on the theory of `overridden` at a familywise error of 1 %: second moments and variances of
/// stream, module and branch at every depth, and token cosines.
judge::StackVerdict agreement_of(const Measured& measured, const StackSpec& overridden);
void check_agrees(const Measured& measured);

/// A small Peri-LN stack with every kind of parameter: norms with biases, tables, positions, token types, QK-norm.
StackSpec with_everything();

}  // namespace periscope::testing
