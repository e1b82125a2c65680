#pragma once

#include <Eigen/Core>

#include "sim/spec/model_spec.h"

namespace periscope::theory {

/// φ(x) and φ'(x), entry by entry.
Eigen::MatrixXf activation_values(Activation activation, const Eigen::MatrixXf& x);
Eigen::MatrixXf activation_slopes(Activation activation, const Eigen::MatrixXf& x);

}  // namespace periscope::theory
