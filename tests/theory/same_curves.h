#pragma once

#include <string>

#include "sim/spec/profile.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"

namespace periscope::theory {

/// Checks that values and standard errors of all curves have the same bits.
inline void check_same_curves(const Profile& actual, const Profile& expected) {
  REQUIRE(actual.curves.size() == expected.curves.size());
  for (const auto& [key, curve] : expected.curves) {
    const std::string name(name_of(key.first));
    testing::check_same_bits(name, actual.curves.at(key).value, curve.value);
    testing::check_same_bits(name + ", standard error", actual.curves.at(key).standard_error, curve.standard_error);
  }
}

}  // namespace periscope::theory
