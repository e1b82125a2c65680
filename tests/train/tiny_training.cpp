#include "tests/train/tiny_training.h"

#include "sim/model/parameters.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {

StackSpec trained_stack(std::string_view placement) {
  StackSpec spec = placed(tiny_stack(), placement);
  spec.model.vocab = 32;
  spec.input.kind = InputKind::tokens;
  validate(spec);
  return spec;
}

TrainSpec few_steps(OptimizerKind optimizer) {
  return {.steps = 6, .batch = 4, .optimizer = optimizer, .lr = 0.05, .warmup = 0.3, .weight_decay = 0.1};
}

const Corpus& synthetic_language() {
  static const Corpus corpus("synthetic", 0.1, 1000, 32);
  return corpus;
}

Trainer trainer_of(const Target& target, const StackSpec& spec, const TrainSpec& train, std::uint64_t seed) {
  return {*target.backend, spec, train, synthetic_language(), seed, target.dtype};
}

NamedNumbers parameters_of(const Backend& ops, const TrainingState& state) {
  NamedNumbers numbers;
  for (const auto& [id, x] : state.parameters) numbers[name_of(id)] = ops.to_host(x);
  return numbers;
}

NamedNumbers memory_of(const Backend& ops, const TrainingState& state) {
  NamedNumbers numbers;
  for (const auto& [id, x] : state.optimizer) {
    numbers["mean." + name_of(id)] = ops.to_host(x.mean);
    if (!x.square.empty()) numbers["square." + name_of(id)] = ops.to_host(x.square);
  }
  return numbers;
}

void check_same_numbers(const std::string& what, const NamedNumbers& actual, const NamedNumbers& expected) {
  REQUIRE_MESSAGE(actual.size() == expected.size(), what);
  for (const auto& [name, numbers] : expected) {
    const std::string where = what + ", " + name;
    REQUIRE_MESSAGE(actual.contains(name), where);
    check_same_bits(where, actual.at(name), numbers);
  }
}

}  // namespace periscope::testing
