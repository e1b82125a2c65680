#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "experiments/engine/judge/stack_verdicts.h"
#include "experiments/engine/run/stacks.h"
#include "sim/spec/weight_scales.h"
#include "theory/predict/predict.h"

/// Stacks of random weights of given scales, simulated and predicted.
namespace periscope::testing {

/// Standard normal numbers of a place.
std::vector<double> normals(std::uint64_t place, std::size_t count);

/// Lognormal scales, 0.3 wide. Gains have a part of their channel in common, as trained ones may: it makes what a norm
/// A reads more than the product of means. Gains of norms C multiply over the depth, so they are a fifth as wide: with
/// wide ones a few channels are nearly all of the stream, and no width is large.
WeightScales uneven_scales(const StackSpec& spec);

/// 4 layers of width 512 on 8 tokens.
StackSpec scaled_stack(std::string_view placement);
StackSpec with(StackSpec spec, WeightScales scales);

struct Measured {
  StackSpec spec;
  Profile profile;
  int seeds;
};

/// 32 seeds are enough for a verdict on nearly all of the wrong theories here.
Measured measure(const StackSpec& spec, config::WeightsChoice weights = config::WeightsChoice::dense, int seeds = 32);

/// T19's verdict at a familywise error of 1 % over all cells: second moments and variances of stream,
/// module and branch at every depth, and token cosines.
judge::StackVerdict agreement_of(const Measured& measured, const StackSpec& overridden);
void check_agrees(const Measured& measured);

/// A small stack of Peri-LN that has every kind of parameter: norms with biases, tables, positions, token types,
/// QK-norm.
StackSpec with_everything();

}  // namespace periscope::testing
