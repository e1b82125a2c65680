#pragma once

#include "theory/norms/norm_law.h"

namespace periscope::theory {

/// The laws of norms that bend every entry by itself, y = γ·φ(αx), for entries that are jointly normal over tokens with
/// the kernel K. With c = α²K, the covariance of u = αx:
///   kernel γ²E[φ(u_t)φ(u_t')], gradient G_tt' → γ²α²E[φ'(u_t)φ'(u_t')]·G_tt', slope γα·E φ'(u_t).
/// Derf: closed forms. DyT: Mehler's series for small c. For large c tanh(u) = E_S erf(u/(S√2)) with S of the
/// Kolmogorov distribution (Andrews and Mallows 1974: S·N(0, 1) is logistic), so that its expectations are those of
/// erf, averaged over two such S by a Gauss rule.
extern const NormLaw dyt_law;
extern const NormLaw derf_law;
extern const NormLaw scale_law;  ///< φ(u) = u

}  // namespace periscope::theory
