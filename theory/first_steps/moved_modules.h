#pragma once

#include <map>
#include <memory>

#include "theory/first_steps/moved_fields.h"

namespace periscope::theory {

/// A module's output f now, beside f⁰ before training. Per channel k:
///   f(s) = keep(s) f⁰(s) + fresh + Σ_t response(s,t) g_k(t) + taken_k(s), g_k the gradients of f at every step.
struct MovedModule {
  Eigen::VectorXf keep;    ///< [now]
  Matrix fresh;            ///< kernel of what is independent of everything before training [now, now]
  Sampled wanders;         ///< the same of sampled channels, which goes on from step to step [now, channels]
  Sampled response;        ///< of the matrices as they were [now, trained]
  Sampled taken;           ///< what the update of W_o or W_down makes, of sampled channels [now, channels]
  Sampled taken_response;  ///< E ∂taken(s)/∂g(t) [now, trained]
  Matrix correction;       ///< kernel of `taken` at the stack's width less that of the samples [now, now]
  std::map<Weight, double> update_square;  ///< mean square of an entry of ΔW·h of the held-out tokens
};

/// What the modules of a chain share.
struct ModuleContext {
  const StackSpec& spec;
  const TrainingTokens& tokens;
  const StepSamples& samples;
  const UpdateLaw& law;
  StepFault fault;
};

/// One module of a chain, step by step: for done = 0, 1, … first `now`, then `back`, as long as there is a next batch.
class TrainedModule {
 public:
  virtual ~TrainedModule() = default;
  [[nodiscard]] virtual MovedModule now(const MovedInput& input, const TokensNow& now) = 0;
  /// From ∂loss/∂f of sampled channels of the next batch [next, channels], which is kept: what the updates of the
  /// matrices that read A_out add to ∂loss/∂A_out [next, channels].
  [[nodiscard]] virtual Sampled back(const Sampled& gradients, const TokensNow& now) = 0;
  /// ∂loss/∂f of the batches so far [trained, channels].
  [[nodiscard]] virtual Sampled gradients(const TokensNow& now) const = 0;
};

/// The references outlive it.
std::unique_ptr<TrainedModule> trained_mlp(const ModuleContext& context, int layer, const InitialBranch& branch);
std::unique_ptr<TrainedModule> trained_attention(const ModuleContext& context, int layer, const InitialBranch& branch);

/// The update of a module's last matrix, from sampled hidden channels at every step.
class LastMatrix {
 public:
  LastMatrix(const ModuleContext& context, const InitialBranch& branch, int layer, Weight weight, int fan_in,
             Eigen::Index hidden);
  /// `hidden`: the channels now [now, hidden].
  void fill(MovedModule& module, const Sampled& hidden, const TokensNow& now);
  /// ∂loss/∂h of the next batch from ∂loss/∂f [next, channels]: through the matrix as it was, whose cotangents before
  /// training are given [next, hidden], and through its update.
  [[nodiscard]] Sampled cotangent(const Sampled& before, const Sampled& gradients, const TokensNow& now) const;
  /// Keeps the next batch.
  void append(const Sampled& hidden, const Sampled& gradients, const TokensNow& now);
  [[nodiscard]] Sampled gradients(const TokensNow& now) const { return gradients_.topRows(now.trained()); }

 private:
  const ModuleContext& context_;
  const InitialBranch& branch_;
  Weight weight_;
  double fan_in_;
  int sublayer_;
  double sigma_;                  // of its entries before training
  Sampled gradients_;             // ∂loss/∂f of every batch at its step [all batches, channels]
  Sampled hidden_;                // of every batch at its step [all batches, hidden]
  std::vector<Sampled> entries_;  // gradients of entries at every step [hidden, channels]
  Sampled taken_off_;             // now [hidden, channels]; empty before the first step
};

/// The updates of a matrix that reads A_out, as gradients meet them on the way back.
class FirstMatrix {
 public:
  /// `rows` of the matrix, whose entries are of `stddev`.
  FirstMatrix(const ModuleContext& context, int sublayer, int matrix, int rows, double stddev)
      : context_(context), sublayer_(sublayer), matrix_(matrix), rows_(rows), stddev_(stddev) {}
  /// What ∂loss/∂A_out of sampled channels is more than before training: through the matrix as it was, from what the
  /// fields' gradients [next, sampled rows] are more than `before`, and through its update. Then keeps the batch, of
  /// which `channels` is A_out [next, channels].
  [[nodiscard]] Sampled back(const Sampled& gradients, const Sampled& before, const Sampled& channels);

 private:
  const ModuleContext& context_;
  int sublayer_, matrix_;
  int rows_;
  double stddev_;
  std::vector<Sampled> entries_;  // [sampled rows, channels]
};

/// Sampled channels of A_out before training [all, channels].
Sampled input_channels(const ModuleContext& context, int sublayer, const InitialBranch& branch);

/// keep, fresh and wanders of a module from its hidden channels before training and now: `gain` makes of their kernel
/// that of the output, and `left` is what decay has left of the matrix between them.
void fill_module(MovedModule& module, const Sampled& before, const Sampled& hidden, double gain, double left,
                 Eigen::Index channels, NormalStream numbers);

}  // namespace periscope::theory
