#include "tests/support/outcome.h"

#include <utility>

#include "sim/model/loss.h"

namespace periscope::testing {

Outcome outcome_of(const StackContext& c, const std::vector<int>& ids) {
  Outcome out;
  out.stack = record_stack(c, embedding_forward(c, ids));
  const Tensor output =
      c.ops.from_host(static_cast<Tensor::Index>(ids.size()), c.model.width, DType::f64, out.stack.output);
  out.logits = c.ops.to_host(logits_forward(c, output));
  return out;
}

std::vector<double> times(double factor, std::vector<double> x) {
  for (double& v : x) v *= factor;
  return x;
}

}  // namespace periscope::testing
