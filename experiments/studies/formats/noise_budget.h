#pragma once

#include <vector>

#include "experiments/studies/formats/deviation.h"
#include "experiments/studies/formats/format_pass.h"
#include "sim/spec/profile.h"

/// T27: what roundings do to the stream, to first order, from one pass in f64 alone. A tensor s that is rounded gets
/// independent errors of mean squares v_i; the stream below it changes by J δ, whose mean square follows from the
/// gradient g_s = Jᵀ g of a loss whose gradient g at the stream is isotropic: E‖Jδ‖² = Σ_i v_i g_s,i² · ND/‖g‖².
namespace periscope::formats {

/// The input of the stack in f64, [tokens, width] by rows: as the table or the generator gives it, and with massive
/// features planted, which nothing does where there are none.
struct Entering {
  std::vector<double> drawn, planted;
};

/// The SQNR of the stream at every depth that T27 predicts for a pass that holds its tensors so, in dB, from a pass in
/// f64 with gradients, those of matrices in `weights` (GradientProbe). v_i of a signal is the mean square error of
/// rounding what the pass in f64 has there
/// (`square_errors`), v of a matrix T26's. A table's rows are rounded as they are drawn: a factor, massive features and
/// an embedding norm make their errors larger or smaller together with them. NaN where sums are not in f32, and where
/// nothing is rounded but to fp32, whose roundings inside ops are left out. Not for two streams.
std::vector<double> predicted_sqnr(const Backend& ops, const StackSpec& spec, const DeviationProbe& exact,
                                   const Profile& weights, const Holding& holding, const Entering& entering);

}  // namespace periscope::formats
