#pragma once

#include <map>
#include <optional>
#include <vector>

#include "sim/spec/block.h"
#include "theory/first_steps/attention_heads.h"
#include "theory/first_steps/first_steps.h"
#include "theory/first_steps/training_tokens.h"
#include "theory/norms/norm_law.h"
#include "theory/predict/normal_stream.h"

namespace periscope::theory {

/// Sizes of the samples of one chain, and their random numbers.
struct StepSamples {
  int hidden = 512;     ///< hidden channels of every module; of an attention as many heads as have so many features
  int channels = 2048;  ///< channels of the stream
  std::uint64_t seed = 0;
  std::uint64_t replicate = 0;

  /// Numbers of a sublayer for one purpose, the same whenever they are asked for.
  enum class Purpose { projections, values, cotangents, gradients, channels, logits };
  [[nodiscard]] NormalStream numbers(int sublayer, Purpose purpose) const;
  /// Those of what is new after so many steps; and those of the rows of one of its matrices, the same at all times.
  [[nodiscard]] NormalStream fresh_numbers(int sublayer, int done) const;
  [[nodiscard]] NormalStream row_numbers(int sublayer, int matrix) const;
};

/// A lower triangular factor of a kernel, with as much on its diagonal as rounding of float needs: F Fᵀ = k.
[[nodiscard]] Sampled factor_of(const Sampled& k);
/// A factor of a matrix that noise may have made slightly indefinite: what is negative in it is left out.
[[nodiscard]] Sampled clipped_factor_of(const Matrix& k);
/// spread·F·normals for a factor of factor_of: fields of a Gaussian process over tokens, one in every column.
[[nodiscard]] Sampled fields_of(double spread, const Sampled& factor, const Sampled& normals);

/// What the first steps need to know of a branch before training. Kernels are per channel: E x_k(t)x_k(t'), of
/// gradients too.
struct InitialBranch {
  Sampled input;            ///< of A_out [all, all]
  Sampled input_factor;     ///< a factor of it
  Sampled output;           ///< of B_out [all, all]
  Vector slope_a, slope_b;  ///< of the norms, 1 where there is none [all]
  Sampled gradient;         ///< of f_out [trained, trained]
  Sampled gradients;        ///< ∂loss/∂f_out of sampled channels [trained, channels]
  /// ∂loss/∂A_out of sampled channels; that of all branches which share it with the first of them, else empty.
  Sampled input_gradients;
};

/// A stack before training, over all tokens of a chain: kernels of its signals and of the gradients of every batch's
/// loss, and sampled channels of the stream's gradients.
struct InitialStack {
  std::vector<InitialBranch> branches;       ///< by sublayer
  std::vector<std::vector<Vector>> slope_c;  ///< of every step and stream, 1 where there is no norm [all]
  Vector final_slope;                        ///< [all]
  Sampled stream_input;                      ///< of what streams begin as, [all, all]
  Vector embedding_slope;                    ///< of the embedding norm, or 1 [all]
  Sampled output, output_factor;             ///< of what the unembedding reads [all, all]
  Sampled logits;                            ///< [all, V]
  Sampled logit_gradient;                    ///< ∂loss/∂logits of every batch's mean loss [trained, V]
  Sampled unembedding;                       ///< its columns of sampled channels [V, channels]
  std::vector<double> gradient_norm;         ///< of all matrices and the table together, of every batch
};

/// ∂loss/∂logits of a batch's mean loss, p − y over its tokens, which begin at `first`.
Sampled logit_gradient(Sampled logits, const TrainingTokens& tokens, Eigen::Index first);

InitialStack initial_stack(const StackSpec& spec, const TrainingTokens& tokens, const StepSamples& samples);

/// Sampled heads of one key/value group of an attention before training: fields of all tokens, and of the gradients.
struct HeadGroup {
  std::vector<SequenceAttention::Rotated> q;
  std::vector<Sampled> q_projection;
  std::vector<SequenceAttention::Scores> scores;
  SequenceAttention::Rotated k;
  Sampled k_projection;
  Sampled v;  ///< [all, e]
};
/// Draws the groups of a layer's attention one after the other.
class HeadDrawer {
 public:
  HeadDrawer(const StackSpec& spec, int layer, const InitialBranch& branch, Eigen::Index sequence,
             const StepSamples& samples);
  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] int heads_per_group() const { return per_group_; }
  [[nodiscard]] const SequenceAttention& attention() const { return attention_; }
  /// The next group; without its values unless `values`.
  [[nodiscard]] HeadGroup next(bool values);

 private:
  const StackSpec& spec_;
  int layer_;
  const InitialBranch& branch_;
  SequenceAttention attention_;
  NormalStream projections_, values_;
  int groups_, per_group_;
  // Expected mean squares of other heads' queries and keys [all], for QK-norm over all of them.
  Eigen::VectorXf query_square_, key_square_;
};

/// σ of a matrix's entries.
double entry_stddev(const StackSpec& spec, int layer, Weight weight);

}  // namespace periscope::theory
