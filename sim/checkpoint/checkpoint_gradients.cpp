#include "sim/checkpoint/checkpoint_gradients.h"

#include <stdexcept>

namespace periscope {

CheckpointGradients::CheckpointGradients(const Backend& backend, const ParameterMap& map, const ModelSpec& model,
                                         Sink sink)
    : backend_(backend), map_(map), sink_(std::move(sink)) {
  for (const auto& [tensor, uses] : map.uses(model)) {
    const std::vector<std::int64_t> shape = stored_shape(uses);
    pending_[tensor] = {uses.size(), shape.front(), shape.size() > 1 ? shape[1] : 1};
  }
}

void CheckpointGradients::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  if (const StoredPart* part = map_.find(parameter)) add(*part, gradient.whole());
}

void CheckpointGradients::add(const StoredPart& part, const Tensor& gradient) {
  const auto found = pending_.find(part.tensor);
  if (found == pending_.end()) throw std::logic_error("a second gradient of tensor " + part.tensor);
  Pending& tensor = found->second;
  if (tensor.gradient.empty()) tensor.gradient.resize(static_cast<std::size_t>(tensor.rows * tensor.cols));
  const std::vector<double> values = backend_.to_host(gradient);
  // A vector [1, n] is stored as n rows of one column.
  const bool vector = gradient.rows() == 1 && tensor.cols == 1;
  const std::int64_t rows = vector ? gradient.cols() : gradient.rows();
  const std::int64_t cols = vector ? 1 : gradient.cols();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t at = part.transposed ? j * tensor.cols + part.first + i : (part.first + i) * tensor.cols + j;
      tensor.gradient[static_cast<std::size_t>(at)] += values[static_cast<std::size_t>(i * cols + j)];
    }
  }
  if (--tensor.uses > 0) return;
  const Pending whole = std::move(tensor);
  pending_.erase(found);
  sink_(part.tensor, whole.gradient);
}

std::vector<std::string> CheckpointGradients::waiting() const {
  std::vector<std::string> all;
  for (const auto& [tensor, pending] : pending_) all.push_back(tensor);
  return all;
}

}  // namespace periscope
