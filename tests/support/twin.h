#pragma once

#include <span>
#include <vector>

#include "tests/support/targets.h"

namespace periscope::testing {

/// One tensor twice: on a target, and the target's rounded values on the reference. An op's error is then
/// its own, without that of rounding its operands.
struct Twin {
  Tensor here;
  Tensor truth;
};

/// Standard normal numbers times `stddev`; `stream` picks which.
Twin normal_twin(const Target& target, Tensor::Index rows, Tensor::Index cols, std::uint32_t stream,
                 double stddev = 1.0);
/// Given values, row-major, rounded to the target's dtype.
Twin twin_of(const Target& target, Tensor::Index rows, Tensor::Index cols, std::span<const double> values);

/// |x| on the reference, for error bounds.
Tensor magnitude(const Tensor& x);
std::vector<double> scaled(double factor, std::vector<double> values);

}  // namespace periscope::testing
