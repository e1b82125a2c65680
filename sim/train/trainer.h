#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/model/context.h"
#include "sim/model/resident_weights.h"
#include "sim/train/corpus.h"
#include "sim/train/optimizer.h"

namespace periscope {

/// Results of one step.
struct StepOutcome {
  double loss;             ///< mean over the batch's labels in nats, with the weights before the step
  double grad_norm;        ///< global gradient norm before clipping [nat]
  double last_layer_norm;  ///< gradient norm of the last layer's parameters, before clipping [nat]
  double rate;             ///< learning rate

  [[nodiscard]] bool is_finite() const;
};

/// The state from which training resumes.
struct TrainingState {
  int steps = 0;  ///< completed steps
  ResidentWeights::Parameters parameters;
  Optimizer::State optimizer;
};

/// Number of equal parts of a micro-batch that run concurrently, each on one thread. It is at most 16; every part has
/// at least 512 tokens, and all gradients together take at most 128 MiB. Depends only on the specification, because the
/// order of summation affects the last bits of the gradients.
[[nodiscard]] int parts_of_micro_batch(const StackSpec& spec, const TrainSpec& train, DType dtype);

/// Dtype of master weights, gradients and moments: f32 for BF16 and FP16, which are too coarse for small steps.
[[nodiscard]] constexpr DType master_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// Trains one stack on one corpus. Weights and batches depend only on specification, corpus and seed.
class Trainer {
 public:
  /// Starts from the seed's random weights. Passes compute in `dtype` without loss scaling, so FP16 gradients below
  /// 2⁻²⁴ underflow. Backend and corpus must outlive this object.
  Trainer(const Backend& ops, const StackSpec& spec, const TrainSpec& train, const Corpus& corpus, std::uint64_t seed,
          DType dtype);

  /// Performs one optimizer step on training_batch(steps + 1), or none if the loss or gradient is not finite.
  StepOutcome step();

  [[nodiscard]] int steps() const { return steps_; }
  /// Weights in the dtype of the passes.
  [[nodiscard]] const ResidentWeights& weights() const { return rounded_ ? *rounded_ : masters_; }
  [[nodiscard]] const StackSpec& spec() const { return spec_; }

  [[nodiscard]] TrainingState state() const;
  /// Resumes from a state of the same specification.
  void restore(TrainingState state);

 private:
  /// Sums of mean losses and gradients over the parts of a batch; gradients are in the order of ids_.
  struct BatchOutcome {
    double loss;
    std::vector<Tensor> gradients;
  };
  struct Squares {
    double all, last_layer;
  };
  [[nodiscard]] BatchOutcome pass(const Windows& batch) const;
  [[nodiscard]] Squares squares_of(const std::vector<Tensor>& gradients) const;
  void update(std::vector<Tensor>& gradients, double scale, int step);
  /// Rounds the master weights for the next pass.
  void round_masters();

  const Backend& ops_;
  StackSpec spec_;
  TrainSpec train_;
  int parts_;  ///< number of parts of a batch
  const Corpus& corpus_;
  std::uint64_t seed_;
  DType dtype_;  ///< dtype of the passes
  ResidentWeights masters_;
  std::optional<ResidentWeights> rounded_;
  Optimizer optimizer_;
  std::vector<ParameterId> ids_;  // parameters that are not frozen
  int steps_ = 0;
};

}  // namespace periscope
