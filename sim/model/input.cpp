#include "sim/model/input.h"

#include <cmath>
#include <vector>

namespace periscope {

Tensor gaussian_input(const Backend& backend, const StackSpec& spec, DType dtype, std::uint64_t seed) {
  const InputSpec& input = spec.input;
  const int width = spec.model.width;
  const double own = std::sqrt(input.second_moment * (1.0 - input.correlation));
  Tensor x = backend.normal(input.tokens, width, dtype, {seed, 0, stream_input}, own);
  if (input.correlation == 0.0) return x;
  const double common = std::sqrt(input.second_moment * input.correlation);
  const Tensor shared = backend.normal(1, width, dtype, {seed, 0, stream_common_input}, common);
  return backend.axpby(1.0, x, 1.0,
                       backend.gather(shared, std::vector<int>(static_cast<std::size_t>(input.tokens), 0)));
}

Tensor embedded_input(const Backend& backend, const WeightSource& weights, std::span<const int> ids) {
  return backend.gather(weights.matrix(0, Weight::embedding), ids);
}

void embedding_backward(const StackContext& c, std::span<const int> ids, const Tensor& dinput,
                        GradientObserver& observer) {
  observer.on_weight(0, Weight::embedding, c.ops.scatter_add(dinput, ids, c.model.vocab));
}

}  // namespace periscope
