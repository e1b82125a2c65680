#include "sim/train/train_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope {
namespace {

// clang-format off
constexpr Key<TrainSpec> train_keys[] = {
    {.name = "corpus", .field = &TrainSpec::corpus, .meaning = "file or folder whose bytes are the tokens; synthetic: built-in language of known entropy rate"},
    {.name = "validation", .field = &TrainSpec::validation, .range = between(0, 1), .meaning = "held-out fraction of the tokens, at the end"},
    {.name = "record_every", .field = &TrainSpec::record_every, .range = at_least(1), .unit = "steps", .meaning = "recording interval; steps 0, 1, 2, 5, 10, 20, 50 and the last one are also recorded"},
    {.name = "record_sequences", .field = &TrainSpec::record_sequences, .range = from_to(1, 4096), .meaning = "number of held-out sequences per record"},
    {.name = "accumulate", .field = &TrainSpec::accumulate, .range = at_least(1), .meaning = "micro-batches per step; divides batch"},
    {.name = "steps", .field = &TrainSpec::steps, .range = from_to(1, 100'000'000), .meaning = "number of optimizer steps"},
    {.name = "batch", .field = &TrainSpec::batch, .range = from_to(1, 1 << 20), .meaning = "sequences of input.tokens per step"},
    {.name = "optimizer", .field = word_field<&TrainSpec::optimizer, optimizer_names>(), .meaning = "adamw, or sgd with momentum; both with decoupled decay"},
    {.name = "lr", .field = &TrainSpec::lr, .range = at_least(0), .meaning = "peak learning rate"},
    {.name = "warmup", .field = &TrainSpec::warmup, .range = from_to(0, 1), .meaning = "fraction of the steps in which the learning rate warms up"},
    {.name = "schedule", .field = word_field<&TrainSpec::schedule, schedule_names>(), .meaning = "learning rate after the warm-up: cosine decay to lr/10, or constant"},
    {.name = "beta1", .field = &TrainSpec::beta1, .range = from_to(0, 0.999999), .meaning = "decay rate of adamw's mean gradient"},
    {.name = "beta2", .field = &TrainSpec::beta2, .range = from_to(0, 0.999999999), .meaning = "decay rate of adamw's mean squared gradient"},
    {.name = "eps", .field = &TrainSpec::eps, .range = at_least(1e-37), .meaning = "adamw: added to the root of the mean squared gradient"},
    {.name = "momentum", .field = &TrainSpec::momentum, .range = from_to(0, 0.999999), .meaning = "momentum of sgd"},
    {.name = "weight_decay", .field = &TrainSpec::weight_decay, .range = at_least(0), .meaning = "weight decay of matrices and tables, multiplied by the learning rate"},
    {.name = "clip", .field = &TrainSpec::clip, .range = at_least(0), .meaning = "maximum global gradient norm; 0: no clipping"},
    {.name = "frozen", .field = &TrainSpec::frozen, .meaning = "weights that are not trained, such as norm_b or q"},
};
// clang-format on

}  // namespace

const Section<TrainSpec> train_section{"train", train_keys};

void validate(const TrainSpec& train) {
  require_ranges(train_section, train);
  if (train.batch % train.accumulate != 0) {
    throw ConfigError(
        fmt::format("train.accumulate = {}: expected a divisor of train.batch = {}", train.accumulate, train.batch));
  }
  const std::vector<std::string> known(weight_names.begin(), weight_names.end());
  for (const std::string& name : train.frozen) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw ConfigError(fmt::format("train.frozen = {}: expected one of {}{}", shortened(name), fmt::join(known, ", "),
                                  suggestion(name, known)));
  }
}

bool is_frozen(const TrainSpec& train, Weight weight) {
  return std::ranges::find(train.frozen, name_of(weight)) != train.frozen.end();
}

double learning_rate(const TrainSpec& train, int step) {
  const int rising = std::max(1, static_cast<int>(std::lround(train.warmup * train.steps)));
  if (step <= rising) return train.lr * step / rising;
  if (train.schedule == ScheduleKind::constant) return train.lr;
  const double done = static_cast<double>(step - rising) / (train.steps - rising);
  return train.lr * (0.1 + 0.45 * (1.0 + std::cos(std::numbers::pi * done)));
}

bool is_recorded(const TrainSpec& train, int step) {
  constexpr int first[] = {0, 1, 2, 5, 10, 20, 50};
  return step % train.record_every == 0 || step == train.steps || std::ranges::find(first, step) != std::end(first);
}

}  // namespace periscope
