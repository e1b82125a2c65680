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
  double loss;             ///< mean over the batch's labels, with the weights before the step [nat]
  double grad_norm;        ///< of all gradients together, before clipping [nat]
  double last_layer_norm;  ///< of the gradients of the last layer's parameters, likewise
  double rate;             ///< the learning rate

  [[nodiscard]] bool is_finite() const;
};

/// The state from which training resumes.
struct TrainingState {
  int steps = 0;  ///< that were done
  ResidentWeights::Parameters parameters;
  Optimizer::State optimizer;
};

/// The number of equal parts of a micro-batch that run concurrently, each on one thread: the most with at least 512
/// tokens each, at most 16, and at most 128 MiB of gradients together. A function of the specification alone, because
/// the order of a sum of gradients decides its last bits.
[[nodiscard]] int parts_of_micro_batch(const StackSpec& spec, const TrainSpec& train, DType dtype);

/// The dtype of master weights, gradients and moments for passes in `dtype`: f32 for BF16 and FP16, whose spacing would
/// lose small steps.
[[nodiscard]] constexpr DType master_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// Trains one stack on one corpus. Weights and batches depend on specification, corpus and seed alone, results on
/// backend and dtype too.
class Trainer {
 public:
  /// Starts from the seed's random weights. Passes compute in `dtype`, without loss scaling: FP16 gradients lose what
  /// is below 2⁻²⁴. The backend and the corpus outlive this.
  Trainer(const Backend& ops, const StackSpec& spec, const TrainSpec& train, const Corpus& corpus, std::uint64_t seed,
          DType dtype);

  /// One optimizer step on training_batch(steps + 1). If loss or gradient are not finite, no weight changes.
  StepOutcome step();

  [[nodiscard]] int steps() const { return steps_; }
  /// The weights in the passes' dtype.
  [[nodiscard]] const ResidentWeights& weights() const { return rounded_ ? *rounded_ : masters_; }
  [[nodiscard]] const StackSpec& spec() const { return spec_; }

  [[nodiscard]] TrainingState state() const;
  /// Resumes from a state of the same specification.
  void restore(TrainingState state);

 private:
  /// Sums over a batch's parts of the mean loss and of the gradients, in the order of ids_.
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
  int parts_;  ///< of a batch
  const Corpus& corpus_;
  std::uint64_t seed_;
  DType dtype_;  ///< of the passes
  ResidentWeights masters_;
  std::optional<ResidentWeights> rounded_;
  Optimizer optimizer_;
  std::vector<ParameterId> ids_;  // of all parameters that are not frozen
  int steps_ = 0;
};

}  // namespace periscope
