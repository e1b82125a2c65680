#include "sim/checkpoint/parameter_map.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "sim/model/parameters.h"

namespace periscope {

void ParameterMap::set_norm(int sublayer, Weight norm, StoredNorm stored) {
  const ParameterId gain = gain_id(sublayer, norm);
  norms_.insert(gain);
  if (stored.gain) parts_[gain] = std::move(*stored.gain);
  if (stored.bias) parts_[bias_of(gain)] = std::move(*stored.bias);
  if (stored.alpha) parts_[alpha_of(gain)] = std::move(*stored.alpha);
}

const StoredPart* ParameterMap::find(const ParameterId& id) const {
  const auto it = parts_.find(id);
  return it == parts_.end() ? nullptr : &it->second;
}

std::map<std::string, std::vector<ParameterMap::Use>> ParameterMap::uses(const ModelSpec& model) const {
  std::map<std::string, std::vector<Use>> all;
  const auto add = [&](const ParameterId& id, std::int64_t rows, std::int64_t cols) {
    if (const StoredPart* part = find(id)) all[part->tensor].push_back({id, *part, rows, cols});
  };
  const auto require = [](bool mapped, const ParameterId& id) {
    if (!mapped) throw std::logic_error("the family maps no tensor to " + name_of(id));
  };
  for (const ParameterId& id : matrices_of(token_stack(model))) {
    require(find(id) != nullptr, id);
    const auto [rows, cols] = shape_of(model, id.weight, id.layer());
    add(id, rows, cols);
    add(bias_of(id), rows, 0);
  }
  for (const ParameterId& id : gains_of(model)) {
    require(norms_.contains(id), id);
    const int width = norm_width(model, id.weight, id.sublayer);
    add(id, width, 0);
    add(bias_of(id), width, 0);
    add(alpha_of(id), 1, 0);
  }
  return all;
}

std::int64_t StoredPart::feature(std::int64_t row) const {
  if (order.empty()) return first + row;
  const std::int64_t size = std::ssize(order);
  return first + row / size * stride + order[static_cast<std::size_t>(row % size)];
}

std::optional<std::int64_t> StoredPart::row_of(std::int64_t feature, std::int64_t rows) const {
  const std::int64_t at = feature - first;
  if (order.empty()) return at < 0 || at >= rows ? std::nullopt : std::optional(at);
  const std::int64_t size = std::ssize(order);
  if (at < 0 || at / stride >= rows / size || at % stride >= size) return std::nullopt;
  return at / stride * size + (std::ranges::find(order, at % stride) - order.begin());
}

std::int64_t stored_index(const ParameterMap::Use& use, std::int64_t entry, std::int64_t stride) {
  const std::int64_t cols = std::max<std::int64_t>(use.cols, 1);
  const std::int64_t feature = use.part.feature(entry / cols);
  return use.part.transposed ? entry % cols * stride + feature : feature * cols + entry % cols;
}

std::optional<std::int64_t> entry_at(const ParameterMap::Use& use, std::int64_t index, std::int64_t stride) {
  const std::int64_t cols = std::max<std::int64_t>(use.cols, 1);
  const auto row = use.part.row_of(use.part.transposed ? index % stride : index / cols, use.rows);
  if (!row) return std::nullopt;
  return *row * cols + (use.part.transposed ? index / stride : index % cols);
}

std::vector<std::int64_t> stored_shape(const std::vector<ParameterMap::Use>& uses) {
  std::int64_t rows = 0;
  for (const ParameterMap::Use& use : uses) {
    const std::int64_t block = std::max<std::int64_t>(std::ssize(use.part.order), 1);
    for (std::int64_t row = use.rows - block; row < use.rows; ++row) rows = std::max(rows, use.part.feature(row) + 1);
  }
  const ParameterMap::Use& use = uses.front();
  if (use.cols == 0) return {rows};
  return use.part.transposed ? std::vector<std::int64_t>{use.cols, rows} : std::vector<std::int64_t>{rows, use.cols};
}

std::int64_t product_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

StackSpec token_stack(const ModelSpec& model) {
  return {.model = model, .init = {}, .input = {.kind = InputKind::tokens, .path = {}}};
}

}  // namespace periscope
