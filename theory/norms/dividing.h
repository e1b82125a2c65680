#pragma once

#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// The law of a norm that divides a token by a size of its own: RMSNorm, LayerNorm and their like.
extern const NormLaw dividing_law;

}  // namespace periscope::theory
