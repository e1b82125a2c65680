#include "experiments/core/stacks/need.h"

#include <algorithm>

namespace periscope::stacks {

void Need::add(double part, std::string_view grows_with) {
  bytes += part;
  if (part <= largest) return;
  largest = part;
  key = grows_with;
}

Need Need::times(double count) const {
  return {.bytes = count * bytes, .operations = count * operations, .key = key, .largest = count * largest};
}

void Need::then(const Need& next) {
  const double all = operations + next.operations;
  if (next.bytes > bytes) *this = next;
  operations = all;
}

Need gram_need(const ModelSpec& m) {
  const double width = m.width;
  const double query = static_cast<double>(m.heads) * m.head_dim;
  const double hidden = m.mlp_width;
  const double matrices = is_gated(m.mlp) ? 3.0 : 2.0;
  Need need;
  // A module's matrices, each as a tensor and as the bounds read it.
  const double mlp = matrices * hidden * width;
  const double attention = 4.0 * query * width;
  need.add(8.0 * 2.0 * std::max(mlp, attention), mlp > attention ? "model.mlp_width" : "model.width");
  need.add(8.0 * 3.0 * width * width, "model.width");
  need.operations = 2.0 * m.layers * (matrices * hidden * width * width + 4.0 * query * width * width);
  return need;
}

}  // namespace periscope::stacks
