#include "sim/checkpoint/checkpoint_gradients.h"

#include <algorithm>
#include <stdexcept>

namespace periscope {

CheckpointGradients::CheckpointGradients(const Backend& backend, const ParameterMap& map, const ModelSpec& model,
                                         Sink sink)
    : backend_(backend), map_(map), sink_(std::move(sink)) {
  for (const auto& [tensor, uses] : map.uses(model)) {
    pending_[tensor] = {uses, uses.size(), stored_shape(uses)};
  }
}

void CheckpointGradients::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  const StoredPart* part = map_.find(parameter);
  if (part == nullptr) return;
  const auto found = pending_.find(part->tensor);
  if (found == pending_.end()) throw std::logic_error("more than one gradient for tensor " + part->tensor);
  Pending& tensor = found->second;
  if (tensor.gradient.empty()) {
    tensor.gradient.resize(static_cast<std::size_t>(product_of(tensor.shape)));
  }
  const ParameterMap::Use& use = *std::ranges::find(tensor.uses, parameter, &ParameterMap::Use::parameter);
  const std::vector<double> values = backend_.to_host(gradient.whole());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t at = stored_index(use, static_cast<std::int64_t>(i), tensor.shape.back());
    tensor.gradient[static_cast<std::size_t>(at)] += values[i];
  }
  if (--tensor.missing > 0) return;
  const Pending whole = std::move(tensor);
  pending_.erase(found);
  sink_(part->tensor, whole.gradient);
}

std::vector<std::string> CheckpointGradients::incomplete() const {
  std::vector<std::string> all;
  for (const auto& [tensor, pending] : pending_) all.push_back(tensor);
  return all;
}

}  // namespace periscope
