#include "experiments/common/dataset_json.h"

#include <map>

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

/// The values from `next` on that fill the dimensions from `level` on.
template <class T>
Json nested(const std::vector<T>& values, const std::vector<std::size_t>& lengths, std::size_t level,
            std::size_t& next) {
  if (level == lengths.size()) return values[next++];
  Json array = Json::array();
  for (std::size_t i = 0; i < lengths[level]; ++i) array.push_back(nested(values, lengths, level + 1, next));
  return array;
}

}  // namespace

Json variables_json(const NetcdfDataset& data) {
  const std::map<std::string, std::size_t> length_of(data.dimensions.begin(), data.dimensions.end());
  Json json = Json::object();
  for (const NetcdfVariable& v : data.variables) {
    std::vector<std::size_t> lengths;
    for (const std::string& name : v.dimensions) lengths.push_back(length_of.at(name));
    std::size_t next = 0;
    json[v.name] = std::visit([&](const auto& values) { return nested(values, lengths, 0, next); }, v.values);
  }
  return json;
}

}  // namespace periscope
