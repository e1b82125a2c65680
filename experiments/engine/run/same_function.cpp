#include "experiments/engine/run/same_function.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/run/token_ids.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/model/stack.h"

namespace periscope::stacks {

std::vector<int> ids_to_run(const ModelSpec& model, std::uint64_t seed) {
  StackSpec spec{.model = model, .init = {}, .input = {.kind = InputKind::tokens, .tokens = 32, .path = {}}};
  const EmbeddingSpec& e = model.embedding;
  if (e.positions > 0) spec.input.tokens = std::min(spec.input.tokens, e.positions - e.position_offset);
  return token_ids(spec, seed);
}

std::vector<double> logits_of(const StackContext& c, std::span<const int> ids) {
  return c.ops.to_host(logits_forward(c, stack_forward(c, embedding_forward(c, ids)).output));
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    apart = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(apart, d);
    largest = std::max(largest, std::abs(a[i]));
  }
  return apart > 0.0 ? apart / largest : 0.0;
}

}  // namespace periscope::stacks
