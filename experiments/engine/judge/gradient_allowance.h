#pragma once

#include <cstddef>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/weight.h"

namespace periscope::judge {

/// The number of keys that a query sees: the harmonic mean over queries, of all layers' means the largest. T without a
/// mask, about T/(ln T + 0.58) behind a causal one.
double mean_keys(const StackSpec& spec);

/// T19: what the mean over seeds of a squared gradient's logarithm may differ by from theory's limit of infinite width,
/// in units of `agreement.finite_width_gradient` and besides half its variance over seeds:
///
///   g·(D/(D − a)·(2 w_2L − w_depth + 4 w_step) + s·ln(1 + n/D))
///
/// w is the finite-width factor at depths 0 … 2L, taken to the top of the stack and back, and its first step w_step
/// counts for the inside of a module and the loss; a = 1, with LayerNorm 2, are the directions that a norm's backward
/// pass is across and T8 leaves out; n = mean_keys. s = 1 for attention's own matrices and the score path's share, else
/// ¼; g = 3 in a stack without norms, else 1. Infinite for D ≤ a. These numbers were measured:
/// docs/theory/finite_width.md, "Finite width of gradients".
double gradient_width_term(const StackSpec& spec, const std::vector<double>& finite_width, std::size_t depth,
                           bool of_attention);

/// T19 in the limit of infinite width: what overlaps of tokens, of order 1/√D each, do to a forward statistic, in units
/// of its constant (`agreement.finite_width`, or that of cosines) and beside its finite-width factor: s·ln(1 + n/D). s
/// = 1 for what attention puts out, a mean over n keys, and ¼ for everything else; 4 for all of it in a stack without
/// norms, where it multiplies on, and there 4·2^m behind m gated MLPs, each of which squares it. Measured against T25:
/// docs/theory/finite_width.md, "Finite width in the limit". `sublayers` are those that the statistic is behind.
double signal_overlap_term(const StackSpec& spec, std::size_t sublayers, bool of_attention);

/// T19 in the limit: the relative allowance of a moment, from its first-order term. Without norms a deviation is a
/// factor on all that follows: exp(term) − 1; `term` itself where there are norms.
double compounded(const StackSpec& spec, double term);

/// True for W_q, W_k, W_v, W_o.
bool is_of_attention(Weight weight);

}  // namespace periscope::judge
