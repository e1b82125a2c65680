#include <algorithm>

#include "experiments/app/tools/list.h"
#include "experiments/studies/studies.h"

namespace periscope::app {

std::vector<const dataset::Schema*> result_schemas() {
  std::vector<const dataset::Schema*> all;
  for (const study::Study& one : studies()) {
    if (one.schema != nullptr && std::ranges::find(all, one.schema) == all.end()) all.push_back(one.schema);
  }
  return all;
}

nlohmann::ordered_json columns_json() {
  nlohmann::ordered_json results = nlohmann::ordered_json::object();
  for (const dataset::Schema* schema : result_schemas()) {
    nlohmann::ordered_json columns = nlohmann::ordered_json::array();
    for (const dataset::ColumnSpec& c : schema->columns()) {
      columns.push_back({{"name", c.name},
                         {"dimensions", c.axes()},
                         {"type", name_of(c.type)},
                         {"units", c.units},
                         {"meaning", c.meaning}});
    }
    results[schema->kind()] = {{"version", schema->version()}, {"columns", std::move(columns)}};
  }
  return {{"results", std::move(results)}};
}

}  // namespace periscope::app
