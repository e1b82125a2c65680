#pragma once

#include <vector>

namespace periscope::verify {

/// T16 attacked by construction: a Peri-LN stack whose every branch points along the stream.
struct AlignedGrowth {
  std::vector<double> rms;    ///< √q at depths 0 … 2L
  std::vector<double> bound;  ///< √q₀ + depth·γ
  double worst = 0.0;         ///< largest rms/bound − 1
  double nearest = 0.0;       ///< rms/bound at the top
};

/// One token x; all matrices are of rank one: attention writes x xᵀ of its input, the MLP one active ReLU unit's
/// output, both onto x. Through sim/model, f64.
AlignedGrowth grow_aligned(int layers, int width, double gain);

}  // namespace periscope::verify
