#pragma once

#include <vector>

#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {

/// What the matrices of a module read, of every batch when its step was taken.
class ReadHistory {
 public:
  ReadHistory(const ModuleContext& context)
      : context_(context),
        read_(context.tokens.trained(), context.spec.model.width),
        seen_(context.tokens.trained(), context.tokens.trained()) {}

  /// Reads the signal now and keeps the next batch.
  void read(const MovedSignal& input, const TokensNow& now);
  [[nodiscard]] const Sampled& total() const { return total_; }    ///< x now [now, D]
  [[nodiscard]] const Vector& square() const { return square_; }   ///< E x² now [now]
  [[nodiscard]] const Sampled& cross() const { return cross_; }    ///< E x(s) x(t), t at its step [now, trained]
  [[nodiscard]] const Sampled& seen() const { return seen_now_; }  ///< E x(t) x(t') of them [trained, trained]
  [[nodiscard]] const Sampled& response() const {
    return response_;
  }  ///< of what matrices meet, decayed [now, trained]

 private:
  const ModuleContext& context_;
  Sampled read_, seen_;
  Sampled total_, cross_, seen_now_, response_;
  Vector square_;
};

/// Which matrix of a chain that reads a signal of the stream, and how many of its rows are drawn.
struct FirstMatrixPlace {
  int sublayer;
  int number;  ///< among those of the sublayer
  int rows;
  Eigen::Index drawn;
  double stddev;  ///< of its entries before training
  /// True where all rows are drawn and gradients come back through them, so that what the signal has taken from these
  /// gradients is in the fields by itself. Else gradients come back through other numbers of the same law.
  bool transposed = false;
};

/// A matrix that reads the stream's channels, step by step: fields z = W x of its drawn rows, and ∂loss/∂x.
/// The gradients a of an entry explain U, what the optimizer has taken off it, as far as a line in them goes,
/// U = Σ_b c_b a_b + u with c_b = E ∂U/∂a_b (Stein), and u is orthogonal to them: u counts as independent.
class FirstMatrix {
 public:
  FirstMatrix(const ModuleContext& context, const ReadHistory& history, const FirstMatrixPlace& place)
      : context_(context), history_(history), place_(place), gradient_(context.tokens.trained(), place.drawn) {}

  /// W₀ x of a signal before training [tokens, drawn].
  [[nodiscard]] Sampled before(const Sampled& x) const { return x * matrix(); }

  /// Fields now.
  struct Fields {
    Sampled values;              ///< z [now, drawn]
    double update_square = 0.0;  ///< mean square of an entry of (W − W₀)·x of the held-out tokens
    // E ∂z(s)/∂g(t) = σ²·D·response(s,t) − D·cross(s,t)·slope(t,row) + D·v(s,row)·w(t,row), g = ∂loss/∂z.
    Sampled slope;  ///< [trained, drawn]
    Sampled v;      ///< [now, drawn]
    Sampled w;      ///< [trained, drawn]; empty where U is linear
  };
  /// Of the signal that `history` has read last.
  [[nodiscard]] Fields now(const TokensNow& now) const;
  /// Σ over rows of a(s) ∂z(s)/∂g(t) b(t) over their number; a [now, drawn], b [trained, drawn].
  [[nodiscard]] Sampled response(const Fields& fields, const Sampled& a, const Sampled& b) const;
  /// From ∂loss/∂z of the next batch [next, drawn] ∂loss/∂x [next, D]. Adds the squared norm of the gradients of all
  /// entries to `square`.
  [[nodiscard]] Sampled back(const Sampled& gradient, const TokensNow& now, double& square);

 private:
  [[nodiscard]] Sampled matrix() const;  // [D, drawn]

  const ModuleContext& context_;
  const ReadHistory& history_;
  FirstMatrixPlace place_;
  Sampled gradient_;              // ∂loss/∂z of every batch at its step [all batches, drawn]
  std::vector<Sampled> entries_;  // gradients of entries at every step [drawn, D]
};

/// A kernel as an update under `fault` sees it.
Sampled seen_kernel(const Sampled& k, StepFault fault);

/// The moments of what the optimizer took off a matrix's entries, of every row.
struct RowMoments {
  std::vector<UpdateLaw::Moments> of_row;
  Eigen::VectorXf remainder;  ///< E u², what no line in the gradients explains of U [rows]

  /// E ∂U/∂a_b of every row [trained, rows], each token with its batch.
  [[nodiscard]] Sampled slopes(const TokensNow& now) const;
};
/// For Gaussian inputs of kernel k [trained, trained] and gradients g [trained, rows]: from the covariance over the
/// inputs of an entry's gradients Σ_t g(t) x_j(t), batch by batch.
RowMoments row_moments(const Sampled& k, const Sampled& g, const TokensNow& now, const UpdateLaw& law);

}  // namespace periscope::theory
