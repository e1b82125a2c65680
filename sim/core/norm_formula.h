#pragma once

#include <cmath>
#include <numbers>

#include "sim/spec/norm_kind.h"

/// φ of a pointwise norm and its derivative, shared by the backends. Constexpr, so that device code may call them.
namespace periscope {

template <class Number>
[[nodiscard]] constexpr Number phi_of(NormFormula::Phi phi, Number u) {
  switch (phi) {
    case NormFormula::Phi::tanh: return std::tanh(u);
    case NormFormula::Phi::erf: return std::erf(u);
    case NormFormula::Phi::none: break;
  }
  return u;
}

/// φ'(u): tanh'(u) = 1/cosh²(u), erf'(u) = 2/√π exp(−u²).
template <class Number>
[[nodiscard]] constexpr Number phi_slope(NormFormula::Phi phi, Number u) {
  switch (phi) {
    case NormFormula::Phi::tanh: {
      const Number inverse = Number(1) / std::cosh(u);  // 0 where cosh overflows
      return inverse * inverse;
    }
    case NormFormula::Phi::erf: return Number(2) * std::numbers::inv_sqrtpi_v<Number> * std::exp(-u * u);
    case NormFormula::Phi::none: break;
  }
  return Number(1);
}

}  // namespace periscope
