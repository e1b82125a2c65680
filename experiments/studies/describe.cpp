#include "experiments/studies/describe.h"

#include "experiments/studies/studies.h"

namespace periscope {

using nlohmann::ordered_json;

ordered_json sections_json() {
  ordered_json all;
  for (const config::AnySection& section : sections()) {
    ordered_json& keys = all.emplace_back(ordered_json{{"name", section.name}})["keys"];
    for (const config::KeyText& k : section.keys) {
      keys.push_back({{"name", k.name},
                      {"default", k.standard},
                      {"unit", k.unit},
                      {"meaning", k.meaning},
                      {"type", k.type},
                      {"choices", k.choices},
                      {"swept", k.swept}});
    }
  }
  return all;
}

ordered_json studies_json() {
  ordered_json all;
  for (const study::Study& one : studies()) {
    ordered_json flags = ordered_json::array();
    for (const study::FlagText& flag : one.flags) {
      flags.push_back({{"name", flag.name},
                       {"meaning", flag.meaning},
                       {"default", flag.standard},
                       {"toggle", flag.toggle},
                       {"list", flag.list},
                       {"number", flag.number},
                       {"positional", flag.positional},
                       {"required", flag.required}});
    }
    std::vector<std::string> own_sections;
    for (const config::AnySection& section : one.sections) own_sections.push_back(section.name);
    const study::CommonFlags& common = one.common;
    all.push_back({{"name", one.name},
                   {"question", one.question},
                   {"example", one.example},
                   {"configuration", one.configuration},
                   {"acting", study::acting_keys(one)},
                   {"sections", own_sections},
                   {"flags", flags},
                   {"result", one.schema != nullptr ? ordered_json(one.schema->kind()) : ordered_json()},
                   {"compares", one.compares},
                   {"common",
                    {{"config", common.config},
                     {"seed", common.seed},
                     {"seeds", common.seeds},
                     {"threads", common.threads},
                     {"device", common.device},
                     {"dtype", common.dtype},
                     {"memory", common.memory},
                     {"out", common.out},
                     {"force", common.force}}}});
  }
  return all;
}

ordered_json results_json() {
  ordered_json all;
  for (const study::Study& one : studies()) {
    if (one.schema == nullptr || all.contains(one.schema->kind())) continue;
    ordered_json columns;
    for (const dataset::ColumnSpec& c : one.schema->columns()) {
      columns.push_back({{"name", c.name},
                         {"dimensions", c.axes()},
                         {"type", name_of(c.type)},
                         {"units", c.units},
                         {"meaning", c.meaning}});
    }
    all[one.schema->kind()] = {{"version", one.schema->version()}, {"columns", columns}};
  }
  return all;
}

}  // namespace periscope
