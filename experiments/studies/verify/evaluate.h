#pragma once

#include <array>
#include <span>
#include <vector>

#include "experiments/studies/verify/bound_case.h"
#include "theory/certify/bounds.h"

namespace periscope::verify {

/// The numbers of one token of a case that bounds are made of, read from the signals of sim/model.
struct TokenFacts {
  double hidden = 0.0;                      ///< ‖h‖
  double wrong_probability = 0.0;           ///< 1 − p_y, summed over the wrong labels: no cancellation
  std::array<theory::NormPass, 3> norms{};  ///< behind W2, the first `passes` of them
  std::size_t passes = 0;
  /// The most that rounding adds to the gradient of a, in units of the bounds' factors; see evaluate.cpp. Infinite if
  /// the squares inside a norm underflow: such a token is measured, but decides nothing.
  double rounding = 0.0;
  double stream_rms = 0.0, branch_rms = 0.0, out_rms = 0.0;  ///< of αx, β·branch, and their sum
  double cosine = 0.0;                                       ///< of αx and β·branch; 0 if one of them is 0
};

/// A case's gradient, measured by sim/model on the reference backend in f64, and what bounds are made of.
struct Evaluation {
  std::vector<TokenFacts> tokens;
  std::vector<double> hidden;         ///< h [T, units]
  std::vector<double> probabilities;  ///< softmax [T, classes]
  std::vector<double> wrong;          ///< p − y [T, classes], its label's entry as −(1 − p_y)
  std::vector<double> module;         ///< a [T, D]
  std::vector<double> gradient;       ///< ∂loss/∂W2 [D, units]
  double gradient_norm = 0.0;         ///< its Frobenius norm
  double beta = 1.0;
  std::optional<double> unembedding;  ///< ‖U‖₂

  [[nodiscard]] theory::GradientPath path(const TokenFacts& token) const {
    return {token.wrong_probability, beta, unembedding, std::span(token.norms).first(token.passes)};
  }
};

Evaluation evaluate(const BoundCase& c);

}  // namespace periscope::verify
