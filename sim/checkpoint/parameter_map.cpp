#include "sim/checkpoint/parameter_map.h"

#include <algorithm>
#include <stdexcept>

#include "sim/model/parameters.h"

namespace periscope {
namespace {

template <class Map, class Key>
auto find_in(const Map& map, const Key& key) -> decltype(&map.begin()->second) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

}  // namespace

const StoredPart* ParameterMap::find(int layer, Weight weight) const { return find_in(matrices_, key(layer, weight)); }
const StoredPart* ParameterMap::find_bias(int layer, Weight weight) const {
  return find_in(biases_, key(layer, weight));
}
const StoredNorm* ParameterMap::find(int sublayer, NormSite site) const { return find_in(norms_, key(sublayer, site)); }

std::map<std::string, std::vector<ParameterMap::Use>> ParameterMap::uses(const ModelSpec& model) const {
  std::map<std::string, std::vector<Use>> all;
  for (const MatrixPlace place : matrices_of(token_stack(model))) {
    const StoredPart* part = find(place.layer, place.weight);
    if (part == nullptr) throw std::logic_error("a family has no tensor for " + name_of(place));
    const auto [rows, cols] = shape_of(model, place.weight);
    all[part->tensor].push_back({name_of(place), *part, rows, cols});
    if (const StoredPart* bias = find_bias(place.layer, place.weight)) {
      all[bias->tensor].push_back({bias_name_of(place), *bias, rows, 0});
    }
  }
  for (const NormPlace place : norms_of(model)) {
    const StoredNorm* norm = find(place.sublayer, place.site);
    if (norm == nullptr) throw std::logic_error("a family has no tensor for " + name_of(place));
    const int rows = norm_width(model, place.site);
    if (norm->gain) all[norm->gain->tensor].push_back({name_of(place) + ".gain", *norm->gain, rows, 0});
    if (norm->bias) all[norm->bias->tensor].push_back({name_of(place) + ".bias", *norm->bias, rows, 0});
  }
  return all;
}

std::vector<std::int64_t> stored_shape(const std::vector<ParameterMap::Use>& uses) {
  std::int64_t rows = 0;
  for (const ParameterMap::Use& use : uses) rows = std::max(rows, use.part.first + use.rows);
  const ParameterMap::Use& use = uses.front();
  if (use.cols == 0) return {rows};
  return use.part.transposed ? std::vector<std::int64_t>{use.cols, rows} : std::vector<std::int64_t>{rows, use.cols};
}

int norm_width(const ModelSpec& m, NormSite site) {
  switch (site) {
    case NormSite::q: return m.qk_norm == QkNorm::full ? m.query_width() : m.head_dim;
    case NormSite::k: return m.qk_norm == QkNorm::full ? m.key_width() : m.head_dim;
    case NormSite::head: return m.embedding_width();
    default: return m.width;
  }
}

StackSpec token_stack(const ModelSpec& model) {
  return {.model = model, .init = {}, .input = {.kind = InputKind::tokens, .path = {}}};
}

}  // namespace periscope
