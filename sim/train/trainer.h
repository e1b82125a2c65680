#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/model/context.h"
#include "sim/model/resident_weights.h"
#include "sim/train/corpus.h"
#include "sim/train/optimizer.h"

namespace periscope {

/// The numbers that one step showed.
struct StepOutcome {
  double loss;             ///< mean over the batch's labels, with the weights before the step [nat]
  double grad_norm;        ///< of all gradients together, before clipping [nat]
  double last_layer_norm;  ///< of the gradients of the last layer's parameters, likewise
  double rate;             ///< the learning rate

  [[nodiscard]] bool is_finite() const;
};

/// All that training goes on from.
struct TrainingState {
  int steps = 0;  ///< that were done
  ResidentWeights::Parameters parameters;
  Optimizer::State optimizer;
};

/// Into how many parts of equal size a micro-batch falls, which are passed through the stack beside each other, each on
/// one thread: as many as there can be with 512 tokens each or more, but at most 16, and so few that their gradients
/// together need no more than 128 MiB. A function of the specification alone, because the order in which gradients are
/// added up decides their last bits.
[[nodiscard]] int parts_of_micro_batch(const StackSpec& spec, const TrainSpec& train, DType dtype);

/// The format in which weights, gradients and the optimizer's memory are kept while passes compute in `dtype`: that
/// itself, but f32 where passes are in BF16 or FP16, whose spacing would swallow small steps.
[[nodiscard]] constexpr DType master_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// Trains one stack on one corpus. Weights and batches depend on specification, corpus and seed alone, results on
/// backend and dtype too: twins differ in their placement and in nothing else.
class Trainer {
 public:
  /// A fresh stack: the random weights of the seed. Passes compute in `dtype`; weights are kept as master_dtype(dtype).
  /// FP16 has no scaling of the loss, so that its gradients lose what is below 2⁻²⁴. The backend and the corpus outlive
  /// this.
  Trainer(const Backend& ops, const StackSpec& spec, const TrainSpec& train, const Corpus& corpus, std::uint64_t seed,
          DType dtype);

  /// One step of the optimizer, on training_batch(steps + 1). A loss or a gradient that is not finite changes no
  /// weight.
  StepOutcome step();

  [[nodiscard]] int steps() const { return steps_; }
  /// Returns the weights that passes use, in their format.
  [[nodiscard]] const ResidentWeights& weights() const { return rounded_ ? *rounded_ : masters_; }
  [[nodiscard]] const StackSpec& spec() const { return spec_; }

  [[nodiscard]] TrainingState state() const;
  /// Goes on from a state of the same specification.
  void restore(TrainingState state);

 private:
  /// The results of the passes of a batch: sums over its parts of the mean loss and of the gradients, which are in the
  /// order of ids_.
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
  /// Rounds the masters for the next pass, where it computes in another format.
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
