#pragma once

#include "tests/support/doctest.h"

namespace periscope::theory {

/// Up to a few hundred roundings.
inline doctest::Approx exactly(double x) { return doctest::Approx(x).epsilon(1e-12); }

}  // namespace periscope::theory
