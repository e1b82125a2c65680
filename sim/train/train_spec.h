#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/base/key.h"
#include "sim/spec/weight.h"

namespace periscope {

enum class OptimizerKind { adamw, sgd };
enum class ScheduleKind { cosine, constant };
inline constexpr std::array<std::string_view, 2> optimizer_names{"adamw", "sgd"};
static_assert(are_names_of<OptimizerKind>(optimizer_names));
inline constexpr std::array<std::string_view, 2> schedule_names{"cosine", "constant"};
static_assert(are_names_of<ScheduleKind>(schedule_names));

/// Name of the built-in corpus (sim/train/synthetic_language.h), which is not a file.
inline constexpr std::string_view synthetic_corpus = "synthetic";

/// Section [train] of the configuration: how a stack is trained and when it is recorded.
struct TrainSpec {
  std::string corpus = std::string(synthetic_corpus);  ///< a file, or a folder, whose bytes are the tokens
  double validation = 0.1;                             ///< held-out fraction of the tokens, taken from the end
  int record_every = 100;                              ///< steps between records; see also is_recorded
  int record_sequences = 4;                            ///< number of held-out sequences per record
  int accumulate = 1;                                  ///< micro-batches per step
  int steps = 1000;
  int batch = 16;  ///< sequences of input.tokens tokens per step, in all micro-batches together
  OptimizerKind optimizer = OptimizerKind::adamw;
  double lr = 2e-3;     ///< peak learning rate
  double warmup = 0.1;  ///< fraction of the steps in which the learning rate warms up
  ScheduleKind schedule = ScheduleKind::cosine;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.033;
  double clip = 1.0;                     ///< maximum global gradient norm; 0 means no clipping
  std::vector<std::string> frozen = {};  ///< names of weights that are not trained, such as "norm_b"

  bool operator==(const TrainSpec&) const = default;
};

extern const Section<TrainSpec> train_section;

/// Throws ConfigError if the number of micro-batches does not divide the batch, or for unknown names in `frozen`.
void validate(const TrainSpec& train);

/// Returns the learning rate of step s = 1 … steps. With W = max(1, round(warmup·steps)) it is s/W·lr up to s = W.
/// After that it is lr, or for the cosine schedule lr·(0.1 + 0.45·(1 + cos π(s − W)/(steps − W))), which ends at lr/10.
[[nodiscard]] double learning_rate(const TrainSpec& train, int step);

/// True if a weight is not trained; its gradient is ignored everywhere.
[[nodiscard]] bool is_frozen(const TrainSpec& train, Weight weight);

/// True if a record is made after `step`: step 0 (before training), 1, 2, 5, 10, 20, 50, multiples of record_every, and
/// the last step.
[[nodiscard]] bool is_recorded(const TrainSpec& train, int step);

}  // namespace periscope
