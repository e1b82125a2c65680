#include "python/bindings/describe.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/catalogue.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/input_file.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/citation.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/studies.h"
#include "python/bindings/own_thread.h"
#include "python/bindings/table.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/parameter_map.h"
#include "sim/model/parameters.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

nb::dict common_of(const study::CommonFlags& common) {
  return table("config", common.config, "seed", common.seed, "seeds", common.seeds, "threads", common.threads, "device",
               common.device, "dtype", common.dtype, "memory", common.memory, "out", common.out, "force", common.force);
}

nb::dict flag_of(const study::FlagText& flag) {
  return table("name", flag.name, "alias", flag.alias, "meaning", flag.meaning, "default", flag.standard, "toggle",
               flag.toggle, "list", flag.list, "number", flag.number, "positional", flag.positional, "required",
               flag.required);
}

nb::list studies_as_dicts() {
  nb::list all;
  for (const study::Study& one : studies()) {
    nb::list flags;
    for (const study::FlagText& flag : one.flags) flags.append(flag_of(flag));
    std::vector<std::string> sections;
    for (const config::AnySection& section : one.sections) sections.push_back(section.name);
    all.append(table("name", one.name, "question", one.question, "example", one.example, "configuration",
                     one.configuration, "acting", study::acting_keys(one), "sections", sections, "flags", flags,
                     "result", one.schema != nullptr ? nb::cast(one.schema->kind()) : nb::none(), "compares",
                     one.compares, "common", common_of(one.common)));
  }
  return all;
}

nb::list sections_as_dicts() {
  nb::list all;
  for (const config::AnySection& section : sections()) {
    nb::list keys;
    for (const config::KeyText& key : section.keys) {
      keys.append(table("name", key.name, "default", key.standard, "unit", key.unit, "meaning", key.meaning, "type",
                        key.type, "choices", key.choices, "swept", key.swept));
    }
    all.append(table("name", section.name, "keys", keys));
  }
  return all;
}

nb::dict schemas() {
  nb::dict all;
  for (const study::Study& one : studies()) {
    if (one.schema == nullptr || all.contains(one.schema->kind().c_str())) continue;
    nb::list columns;
    for (const dataset::ColumnSpec& column : one.schema->columns()) {
      columns.append(table("name", column.name, "dimensions", column.axes(), "type", dataset::name_of(column.type),
                           "units", column.units, "meaning", column.meaning));
    }
    all[one.schema->kind().c_str()] = table("version", one.schema->version(), "columns", columns);
  }
  return all;
}

/// The resolved configuration as JSON, of a file with entries on top. Throws ConfigError for one that cannot be.
std::string resolve(const std::string& file, const std::vector<std::string>& entries) {
  std::string text;
  on_own_thread([&] {
    const config::RunOfInputFiles files;
    text = config::json_text(config::resolved(config::load_config(sections(), file, entries)).printed);
  });
  return text;
}

/// Name and shape of every parameter of the one stack that a configuration describes, as `Model` wants them. Throws
/// ConfigError for several stacks.
std::vector<std::pair<std::string, std::vector<int>>> parameters(const std::string& file,
                                                                 const std::vector<std::string>& entries) {
  std::vector<std::pair<std::string, std::vector<int>>> all;
  on_own_thread([&] {
    const config::RunOfInputFiles files;
    const std::vector<StackSpec> stacks = config::load_config(sections(), file, entries).stacks();
    if (stacks.size() != 1) {
      throw ConfigError(fmt::format("config: found {} stacks; expected one value of every key", stacks.size()));
    }
    const ModelSpec& model = stacks.front().model;
    for (const ParameterId& id : all_parameters_of(token_stack(model))) {
      std::vector<int> shape{vector_length(model, id)};
      if (id.part == ParameterId::Part::matrix) {
        const WeightShape matrix = shape_of(model, id.weight, id.layer());
        shape = {matrix.fan_out, matrix.fan_in};
      }
      all.emplace_back(name_of(id), shape);
    }
  });
  return all;
}

}  // namespace

void add_descriptions(nb::module_& module) {
  module.def("studies", &studies_as_dicts, "Every study: its question, flags, sections, keys that act.");
  module.def("sections", &sections_as_dicts, "Every section of a configuration, with its keys.");
  module.def("schemas", &schemas, "Every kind of result: its columns, with dimensions, units and meaning.");
  module.def("resolve", &resolve, "file"_a, "entries"_a, "The resolved configuration, as JSON.");
  module.def("parameters", &parameters, "file"_a, "entries"_a, "Name and shape of every parameter of one stack.");
  module.def(
      "placements", [] { return config::json_text(config::placements_json()); }, "The named placements, as JSON.");
  module.def(
      "recipes", [] { return config::json_text(config::recipes_json()); }, "Every model.recipe, as JSON.");
  module.def(
      "citation",
      [](const std::map<std::string, std::string>& result) {
        if (result.empty()) return study::citation();
        return study::citation([&](const std::string& name) {
          const auto found = result.find(name);
          if (found == result.end()) throw InputError(fmt::format("result: it has no text attribute {}", name));
          return printable(found->second);
        });
      },
      "result"_a, "BibTeX of the program, or of a result with these attributes.");
  module.def(
      "build",
      [] {
        return table("version", build_info::version, "commit", build_info::commit, "compiler", build_info::compiler);
      },
      "What this module was built from.");
}

}  // namespace periscope::python
