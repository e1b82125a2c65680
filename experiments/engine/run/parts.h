#pragma once

#include <tuple>

#include "sim/measure/probe.h"
#include "theory/predict/predict.h"

/// Members of readings and predictions, for the cache.
namespace periscope {

inline auto parts(Curve& c) { return std::tie(c.value, c.standard_error); }
inline auto parts(Profile& p) { return std::tie(p.curves, p.angular_distance, p.weight_curves); }
inline auto parts(Reading& r) { return std::tie(r.profile, r.top, r.diverged_at); }

namespace theory {

inline auto parts(Prediction& p) {
  return std::tie(p.profile, p.refusal, p.finite_width, p.replicates, p.samples, p.backward_samples, p.tolerance,
                  p.gradient_tolerance, p.gradient_refusal, p.exact_at_width, p.limit, p.spread, p.left_out,
                  p.finite_width_replicates, p.finite_width_degrees, p.replicates_given, p.draws, p.draws_per_sequence);
}

}  // namespace theory

}  // namespace periscope
