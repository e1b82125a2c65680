#pragma once

#include <string>

#include "sim/spec/profile.h"
#include "theory/kernels/kernel.h"

/// What theory knows of every kind of norm (T2, T8, and on the coordinates of T25): a table with one row per kind.
/// theory/norms/norm_set.h has what certificates know of it.
namespace periscope::theory {

/// A norm as a stack uses it.
struct NormUse {
  NormKind kind = NormKind::rms;
  double eps = 0.0;
  int width = 0;  ///< D
  double alpha = 1.0;
};
[[nodiscard]] NormUse norm_use(const ModelSpec& model);

/// What the gradient's map needs to know of a norm's input.
struct NormTrace {
  Vector square;      ///< the square of the divisor: mean square (LayerNorm: variance) + eps of every token [T]
  Matrix input = {};  ///< of a pointwise norm: the covariance of αx [T, T]
};

/// The laws of one kind of norm.
struct NormLaw {
  /// T2: the kernel after a norm of gain gamma, eps included. That of a pointwise norm is right where entries are
  /// normal.
  TokenKernel (*kernel)(const TokenKernel& x, const NormUse& norm, double gamma);
  /// Returns what `slope` and `gradient` need of a norm whose input has this kernel.
  NormTrace (*trace)(const TokenKernel& x, const NormUse& norm);
  /// E ∂y_i/∂x_i of every token [T], but for what falls with 1/D: gamma over the divisor, 0 for a token that is 0; of a
  /// pointwise norm gamma·alpha·E φ'(αx).
  Vector (*slope)(const NormTrace& trace, const NormUse& norm, double gamma);
  /// T8: the gradient kernel at the norm's input, given the kernel at its output, gamma² G_tt'/√(r_t r_t'); of a
  /// pointwise norm gamma²α²E[φ'(αx_t)φ'(αx_t')]·G_tt'.
  Matrix (*gradient)(const Matrix& g, const NormTrace& trace, const NormUse& norm, double gamma);
  /// The norm of T1 on coordinates (T25), eps included: a row that is 0 stays 0. Null: there is no such map.
  void (*coordinates)(Eigen::Ref<Matrix> x, const NormUse& norm, double gamma);
  /// ∂log(second moment after)/∂log(second moment before): 0 for norms that divide, from 0 to 1 for pointwise ones.
  double (*elasticity)(double second_moment, const NormUse& norm);
};
[[nodiscard]] const NormLaw& law_of(NormKind kind);

/// The law of a norm that divides a token by a size of its own: RMSNorm, LayerNorm and their like.
extern const NormLaw dividing_law;

/// The laws of norms that bend every entry by itself, y = γ·φ(αx), for entries that are jointly normal over tokens with
/// the kernel K. With c = α²K, the covariance of u = αx:
///   kernel γ²E[φ(u_t)φ(u_t')], gradient G_tt' → γ²α²E[φ'(u_t)φ'(u_t')]·G_tt', slope γα·E φ'(u_t).
/// Derf: closed forms. DyT: Mehler's series for small c. For large c tanh(u) = E_S erf(u/(S√2)) with S of the
/// Kolmogorov distribution (Andrews and Mallows 1974: S·N(0, 1) is logistic), so that its expectations are those of
/// erf, averaged over two such S by a Gauss rule.
extern const NormLaw dyt_law;
extern const NormLaw derf_law;
extern const NormLaw scale_law;  ///< φ(u) = u

/// Why the norms of a stack have no map on coordinates (T25), or "".
std::string coordinates_unsupported(const ModelSpec& model);
/// Why the kernel maps of a stack's norms do not hold, or "": pointwise norms need normal entries, and their own
/// outputs are not normal.
std::string norm_unsupported(const StackSpec& spec);
/// The same for the final norm, which only gradients need.
std::string final_norm_unsupported(const ModelSpec& model);
/// Removes kurtosis and maximum of outputs of pointwise norms from a profile: they were computed for normal entries.
void leave_out_tails(const ModelSpec& model, Profile& profile);

/// Applies NormLaw::coordinates. Throws std::logic_error where coordinates_unsupported has a reason.
void normalise(Eigen::Ref<Matrix> x, const NormUse& norm, double gamma);

}  // namespace periscope::theory
