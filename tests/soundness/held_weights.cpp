#include "tests/soundness/held_weights.h"

#include "sim/model/parameters.h"

namespace periscope::soundness {

HeldWeights::HeldWeights(const Backend& backend, const ModelSpec& model,
                         const std::map<ParameterId, Numbers>& numbers) {
  for (int l = -1; l <= model.sublayers(); ++l) sublayers_[l] = {};
  const auto tensor_of = [&](const ParameterId& id) {
    const auto found = numbers.find(id);
    if (found == numbers.end()) return Tensor{};
    return backend.from_host(found->second.rows, found->second.cols, DType::f64, found->second.values);
  };
  for (const auto& [id, n] : numbers) {
    if (id.part == ParameterId::Part::bias || id.part == ParameterId::Part::alpha) continue;
    SublayerWeights& weights = sublayers_[owner_sublayer(model, id)];
    const Tensor x = tensor_of(id);
    if (is_norm(id.weight)) {
      weights.norms[id.weight] = {.gain = x, .bias = tensor_of(bias_of(id)), .alpha = tensor_of(alpha_of(id))};
    } else {
      weights.linear[id.weight] = {dense_map([x] { return x; }), tensor_of(bias_of(id))};
    }
  }
}

}  // namespace periscope::soundness
