#pragma once

#include <span>
#include <vector>

#include "tests/support/targets.h"

namespace periscope::testing {

/// A tensor on a target and the same rounded values on the reference, so that comparisons exclude operand rounding.
struct Twin {
  Tensor here;
  Tensor truth;
};

/// Returns normal random numbers; `stream` selects the random stream.
Twin normal_twin(const Target& target, Tensor::Index rows, Tensor::Index cols, std::uint32_t stream,
                 double stddev = 1.0);
/// Returns the given values, in row-major order, rounded to the target's dtype.
Twin twin_of(const Target& target, Tensor::Index rows, Tensor::Index cols, std::span<const double> values);

/// Returns |x| on the reference, for error bounds.
Tensor magnitude(const Tensor& x);
std::vector<double> scaled(double factor, std::vector<double> values);

}  // namespace periscope::testing
