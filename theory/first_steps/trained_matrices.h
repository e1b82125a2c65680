#pragma once

#include <vector>

#include "theory/first_steps/moved_streams.h"

namespace periscope::theory {

/// The signal that a module's matrices read: now, and that of every batch at its step, the one that trained on it.
class ReadHistory {
 public:
  explicit ReadHistory(const ModuleContext& context)
      : context_(context),
        read_(context.tokens.trained(), context.spec.model.width),
        seen_(context.tokens.trained(), context.tokens.trained()) {}

  /// Sets the signal now and stores the rows of the next batch.
  void read(const MovedSignal& input, const TokensNow& now);
  [[nodiscard]] const Sampled& total() const { return total_; }   ///< x now [now, D]
  [[nodiscard]] const Vector& square() const { return square_; }  ///< E x² now [now]
  [[nodiscard]] const Sampled& cross() const { return cross_; }   ///< E x(s) x(t), t at its step [now, trained]
  /// E x(t) x(t'), both at their steps [trained, trained].
  [[nodiscard]] const Sampled& seen() const { return seen_now_; }
  /// The signal's response, times what weight decay leaves of the matrices [now, trained].
  [[nodiscard]] const Sampled& response() const { return response_; }

 private:
  const ModuleContext& context_;
  Sampled read_, seen_;
  Sampled total_, cross_, seen_now_, response_;
  Vector square_;
};

/// A matrix of a chain, and how many of its rows are drawn.
struct FirstMatrixPlace {
  int sublayer;
  int number;  ///< index among the sublayer's matrices
  int rows;
  Index drawn;    ///< number of rows that are drawn
  double stddev;  ///< of the matrix's entries before training
  /// True if gradients pass back through the drawn rows themselves: then all rows are drawn, and W₀ x contains the
  /// signal's response to these gradients. Otherwise they pass through independent numbers, and the response is added.
  bool transposed = false;
};

/// A matrix that reads the stream, step by step: z = W x of its drawn rows, and ∂loss/∂x. What the optimizer subtracts
/// from an entry with gradients a_b is U = Σ_b c_b a_b + u, c_b = E ∂U/∂a_b (Stein's lemma). u, which is uncorrelated
/// with every a_b, is taken as independent of everything (docs/theory/first_steps.md).
class FirstMatrix {
 public:
  FirstMatrix(const ModuleContext& context, const ReadHistory& history, const FirstMatrixPlace& place)
      : context_(context), history_(history), place_(place), gradient_(context.tokens.trained(), place.drawn) {}

  /// W₀ x of a signal before training [tokens, drawn].
  [[nodiscard]] Sampled before(const Sampled& x) const { return x * matrix(); }

  /// z now, and its derivatives.
  struct Fields {
    Sampled values;              ///< z [now, drawn]
    double update_square = 0.0;  ///< mean square of an entry of (W − W₀)·x of the held-out tokens
    // With g = ∂loss/∂z, E ∂z(s)/∂g(t) = σ²·D·response(s,t) − D·cross(s,t)·slope(t,row) + D·v(s,row)·w(t,row).
    Sampled slope;  ///< [trained, drawn]
    Sampled v;      ///< [now, drawn]
    Sampled w;      ///< [trained, drawn]; empty where U is linear
  };
  /// Returns z for the signal that `history` read last.
  [[nodiscard]] Fields now(const TokensNow& now) const;
  /// Returns the mean over rows of a(s) ∂z(s)/∂g(t) b(t) [now, trained]; a [now, drawn], b [trained, drawn].
  [[nodiscard]] Sampled response(const Fields& fields, const Sampled& a, const Sampled& b) const;
  /// Returns ∂loss/∂x [next, D] of the next batch from its ∂loss/∂z [next, drawn]. Adds the squared norm of the whole
  /// matrix's gradient to `square`.
  [[nodiscard]] Sampled back(const Sampled& gradient, const TokensNow& now, double& square);

 private:
  [[nodiscard]] Sampled matrix() const;  // [D, drawn]

  const ModuleContext& context_;
  const ReadHistory& history_;
  FirstMatrixPlace place_;
  Sampled gradient_;              // ∂loss/∂z of every batch at its step [all batches, drawn]
  std::vector<Sampled> entries_;  // gradients of entries at every step [drawn, D]
};

/// A module's last matrix, W_o or W_down, step by step. Its update is explicit, from the drawn hidden channels to all
/// channels of the stream.
class LastMatrix {
 public:
  LastMatrix(const ModuleContext& context, const InitialBranch& branch, int sublayer, Weight weight, int fan_in,
             Index hidden);
  /// Returns the module's output from its hidden channels before training and now [now, hidden]; the update acts on
  /// `seen`. `responds` is the output's response to its gradients through the module's other matrices, divided by
  /// σ² · fan-in [now, trained].
  [[nodiscard]] MovedModule output(const Sampled& before, const Sampled& hidden, const Sampled& seen,
                                   const Sampled& responds, const TokensNow& now);
  /// Returns ∂loss/∂h [next, hidden] of the next batch from its ∂loss/∂f [next, D].
  [[nodiscard]] Sampled back(const Sampled& gradients, const TokensNow& now) const;
  /// Stores the next batch; adds the squared norm of the whole matrix's gradient to `square`.
  void append(const Sampled& hidden, const Sampled& gradients, const TokensNow& now, double& square);

 private:
  /// Adds the update's part of the output.
  void add_update(MovedModule& module, const Sampled& hidden, const TokensNow& now);

  const ModuleContext& context_;
  const InitialBranch& branch_;
  int sublayer_;
  Weight weight_;
  double fan_in_;
  double sigma_;                  // of its entries before training
  Sampled gradients_;             // ∂loss/∂f of every batch at its step [all batches, D]
  Sampled hidden_;                // of every batch at its step [all batches, hidden]
  std::vector<Sampled> entries_;  // gradients of entries at every step [hidden, D]
  Sampled taken_off_;             // now [hidden, D]; empty before the first step
};

}  // namespace periscope::theory
