#pragma once

#include <string>

#include "sim/spec/profile.h"
#include "theory/kernels/kernel.h"

/// Formulas of every kind of norm (T2, T8; on coordinates for the finite-width chain, T25): a table with one row per
/// kind. The bounds used by certificates are in theory/norms/norm_set.h.
namespace periscope::theory {

/// Kind and parameters of a norm.
struct NormUse {
  NormKind kind = NormKind::rms;
  double eps = 0.0;
  int width = 0;  ///< D
  double alpha = 1.0;
};
[[nodiscard]] NormUse norm_use(const ModelSpec& model);

/// Properties of a norm's input that its gradient map depends on.
struct NormTrace {
  Vector square;      ///< square of the divisor: mean square (LayerNorm: variance) + eps of every token [T]
  Matrix input = {};  ///< pointwise norms: covariance of αx [T, T]
};

/// Formulas of one kind of norm.
struct NormLaw {
  /// Kernel after a norm with gain gamma (T2), eps included. For pointwise norms, correct only if entries are normal.
  TokenKernel (*kernel)(const TokenKernel& x, const NormUse& norm, double gamma);
  /// Returns the inputs of `slope` and `gradient` for a norm whose input has kernel x.
  NormTrace (*trace)(const TokenKernel& x, const NormUse& norm);
  /// E ∂y_i/∂x_i of every token [T] to leading order in 1/D: gamma over the divisor, 0 for a zero token. Pointwise
  /// norms: gamma·alpha·E φ'(αx).
  Vector (*slope)(const NormTrace& trace, const NormUse& norm, double gamma);
  /// Gradient kernel at the norm's input, given the kernel at its output (T8): gamma² G_tt'/√(r_t r_t'). Pointwise
  /// norms: gamma²α²E[φ'(αx_t)φ'(αx_t')]·G_tt'.
  Matrix (*gradient)(const Matrix& g, const NormTrace& trace, const NormUse& norm, double gamma);
  /// Applies the norm (T1) in place to coordinates (T25), eps included; zero rows stay 0. Null if unsupported.
  void (*coordinates)(Eigen::Ref<Matrix> x, const NormUse& norm, double gamma);
  /// ∂log(second moment after)/∂log(second moment before): 0 for norms that divide, from 0 to 1 for pointwise norms.
  double (*elasticity)(double second_moment, const NormUse& norm);
};
[[nodiscard]] const NormLaw& law_of(NormKind kind);

/// Norms that divide a token by its own size: RMSNorm, LayerNorm, L2 norm.
extern const NormLaw dividing_law;

/// Pointwise norms y = γ·φ(αx), for entries that are jointly normal over tokens with kernel K. With c = α²K, the
/// covariance of u = αx:
///   kernel γ²E[φ(u_t)φ(u_t')], gradient G_tt' → γ²α²E[φ'(u_t)φ'(u_t')]·G_tt', slope γα·E φ'(u_t).
/// Derf: closed forms. DyT: Mehler's series for small c. For large c, tanh(u) = E_S erf(u/(S√2)) with S from the
/// Kolmogorov distribution (Andrews and Mallows 1974: S·N(0, 1) is logistic). Expectations of tanh are therefore the
/// closed forms of erf, averaged over two independent S by a Gauss rule.
extern const NormLaw dyt_law;
extern const NormLaw derf_law;
extern const NormLaw scale_law;  ///< φ(u) = u

/// Returns why the finite-width chain (T25) does not support a model's norms, or "".
std::string coordinates_unsupported(const ModelSpec& model);
/// Returns why a stack's norms are unsupported, or "": pointwise norms need normal entries, but make them non-normal.
std::string norm_unsupported(const StackSpec& spec);
/// Returns why the final norm is unsupported, or "". Only gradients depend on it.
std::string final_norm_unsupported(const ModelSpec& model);
/// Removes kurtosis and maximum of pointwise-norm outputs from a profile: their formulas assume normal entries.
void remove_pointwise_tails(const ModelSpec& model, Profile& profile);

/// Applies NormLaw::coordinates. Throws std::logic_error if coordinates_unsupported returns a reason.
void normalise(Eigen::Ref<Matrix> x, const NormUse& norm, double gamma);

}  // namespace periscope::theory
