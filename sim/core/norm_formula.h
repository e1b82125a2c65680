#pragma once

#include <cmath>
#include <numbers>

#include "sim/spec/norm_kind.h"

/// φ of a pointwise norm and its derivative, as every backend computes them. Constexpr, so that device code may call
/// them.
namespace periscope {

template <class Number>
[[nodiscard]] constexpr Number bent(NormFormula::Bend bend, Number u) {
  switch (bend) {
    case NormFormula::Bend::tanh: return std::tanh(u);
    case NormFormula::Bend::erf: return std::erf(u);
    case NormFormula::Bend::none: break;
  }
  return u;
}

/// tanh'(u) = 1/cosh²(u), erf'(u) = 2/√π exp(−u²).
template <class Number>
[[nodiscard]] constexpr Number bent_slope(NormFormula::Bend bend, Number u) {
  switch (bend) {
    case NormFormula::Bend::tanh: {
      const Number inverse = Number(1) / std::cosh(u);  // 0 where cosh overflows
      return inverse * inverse;
    }
    case NormFormula::Bend::erf: return Number(2) * std::numbers::inv_sqrtpi_v<Number> * std::exp(-u * u);
    case NormFormula::Bend::none: break;
  }
  return Number(1);
}

}  // namespace periscope
