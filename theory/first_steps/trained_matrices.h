#pragma once

#include <vector>

#include "theory/first_steps/trained_streams.h"

namespace periscope::theory {

/// Input of a module's matrices: the current signal, and the signal of every past batch at its training step.
class InputHistory {
 public:
  explicit InputHistory(const ModuleContext& context)
      : context_(context),
        read_(context.tokens.trained(), context.spec.model.width),
        past_(context.tokens.trained(), context.tokens.trained()) {}

  /// Sets the current signal and stores the rows of the next batch.
  void update(const TrainedSignal& input, const CurrentTokens& now);
  [[nodiscard]] const Sampled& total() const { return total_; }   ///< current x [now, D]
  [[nodiscard]] const Vector& square() const { return square_; }  ///< current E x² [now]
  [[nodiscard]] const Sampled& cross() const { return cross_; }   ///< E x(s) x(t), t at its step [now, trained]
  /// E x(t) x(t'), each at its own step [trained, trained].
  [[nodiscard]] const Sampled& past() const { return past_now_; }
  /// Response of the signal times the weight-decay factors of the matrices [now, trained].
  [[nodiscard]] const Sampled& response() const { return response_; }

 private:
  const ModuleContext& context_;
  Sampled read_, past_;
  Sampled total_, cross_, past_now_, response_;
  Vector square_;
};

/// Identity, sampled rows and initial scale of an InputMatrix.
struct InputMatrixPlace {
  int sublayer;
  int number;  ///< index among the matrices of the sublayer
  int rows;
  Index drawn;    ///< number of sampled rows
  double stddev;  ///< standard deviation of the entries before training
  /// True if gradients propagate through the sampled rows themselves. Then all rows are sampled and W₀ x already
  /// contains the response of the signal. Otherwise gradients use independent random numbers; the response is added.
  bool transposed = false;
};

/// A matrix that reads the stream: computes z = W x for its sampled rows, and ∂loss/∂x. The optimizer subtracts
/// U = Σ_b c_b a_b + u from an entry with gradients a_b, where c_b = E ∂U/∂a_b (Stein's lemma). u is uncorrelated with
/// every a_b and treated as independent noise (docs/theory/first_steps.md).
class InputMatrix {
 public:
  InputMatrix(const ModuleContext& context, const InputHistory& history, const InputMatrixPlace& place)
      : context_(context), history_(history), place_(place), gradient_(context.tokens.trained(), place.drawn) {}

  /// Returns W₀ x of a signal before training [tokens, drawn].
  [[nodiscard]] Sampled initial_output(const Sampled& x) const { return x * matrix(); }

  /// Current z and its derivatives.
  struct Fields {
    Sampled values;              ///< z [now, drawn]
    double update_square = 0.0;  ///< mean square of an entry of (W − W₀)·x on the held-out tokens
    // With g = ∂loss/∂z, E ∂z(s)/∂g(t) = σ²·D·response(s,t) − D·cross(s,t)·slope(t,row) + D·v(s,row)·w(t,row).
    Sampled slope;  ///< [trained, drawn]
    Sampled v;      ///< [now, drawn]
    Sampled w;      ///< [trained, drawn]; empty if U is linear
  };
  /// Returns z for the current signal of `history`.
  [[nodiscard]] Fields forward(const CurrentTokens& now) const;
  /// Returns the mean over rows of a(s) ∂z(s)/∂g(t) b(t) [now, trained]; a [now, drawn], b [trained, drawn].
  [[nodiscard]] Sampled response(const Fields& fields, const Sampled& a, const Sampled& b) const;
  /// Returns ∂loss/∂x [next, D] of the next batch, given its ∂loss/∂z [next, drawn]. Adds the squared norm of the
  /// gradient, extrapolated to all rows, to `square`.
  [[nodiscard]] Sampled backward(const Sampled& gradient, const CurrentTokens& now, double& square);

 private:
  [[nodiscard]] Sampled matrix() const;  // [D, drawn]

  const ModuleContext& context_;
  const InputHistory& history_;
  InputMatrixPlace place_;
  Sampled gradient_;              // ∂loss/∂z of every batch at its step [all batches, drawn]
  std::vector<Sampled> entries_;  // gradients of the entries at every step [drawn, D]
};

/// The output matrix of a module, W_o or W_down. Its update is computed entry by entry, for sampled hidden channels
/// and all channels of the stream.
class OutputMatrix {
 public:
  OutputMatrix(const ModuleContext& context, const InitialBranch& branch, int sublayer, Weight weight, int fan_in,
               Index hidden);
  /// Returns the module's output, given its hidden channels before training and now [now, hidden]. The update
  /// acts on `update_input`. `other_response`: response of the output to its gradients through the module's other
  /// matrices, divided by σ²·fan-in [now, trained].
  [[nodiscard]] ModuleOutput output(const Sampled& before, const Sampled& hidden, const Sampled& update_input,
                                    const Sampled& other_response, const CurrentTokens& now);
  /// Returns ∂loss/∂h [next, hidden] of the next batch, given its ∂loss/∂f [next, D].
  [[nodiscard]] Sampled backward(const Sampled& gradients, const CurrentTokens& now) const;
  /// Stores the next batch. Adds the squared norm of the gradient, extrapolated to all columns, to `square`.
  void append(const Sampled& hidden, const Sampled& gradients, const CurrentTokens& now, double& square);

 private:
  /// Adds the contribution of the update to the output.
  void add_update(ModuleOutput& module, const Sampled& hidden, const CurrentTokens& now);

  const ModuleContext& context_;
  const InitialBranch& branch_;
  int sublayer_;
  Weight weight_;
  double fan_in_;
  double sigma_;                  // standard deviation of the entries before training
  Sampled gradients_;             // ∂loss/∂f of every batch at its step [all batches, D]
  Sampled hidden_;                // hidden channels of every batch at its step [all batches, hidden]
  std::vector<Sampled> entries_;  // gradients of the entries at every step [hidden, D]
  Sampled update_;                // current U [hidden, D]; empty before the first step
};

}  // namespace periscope::theory
