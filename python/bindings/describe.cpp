#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/config.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/resolved.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/describe.h"
#include "experiments/studies/studies.h"
#include "python/bindings/bindings.h"
#include "python/bindings/worker_thread.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/parameter_map.h"
#include "sim/model/parameters.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

/// Returns the resolved configuration of a file and additional entries as JSON. Throws ConfigError for an invalid
/// configuration, and InputError for an unreadable text file.
std::string resolve(const std::string& file, const std::vector<std::string>& entries) {
  std::string text;
  run_on_worker([&] {
    config::Config config = config::load_config(sections(), file, entries);
    config::read_texts(config);
    text = config::json_text(config::resolved(config).printed);
  });
  return text;
}

/// Returns the names and shapes of the configured stack's parameters for `Model`. Throws ConfigError if there are
/// several stacks.
std::vector<std::pair<std::string, std::vector<int>>> parameters(const std::string& file,
                                                                 const std::vector<std::string>& entries) {
  std::vector<std::pair<std::string, std::vector<int>>> all;
  run_on_worker([&] {
    const std::vector<StackSpec> stacks = config::load_config(sections(), file, entries).stacks();
    if (stacks.size() != 1) {
      throw ConfigError(
          fmt::format("config: found {} stacks; expected one, so set every key to one value", stacks.size()));
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
  module.def(
      "description",
      [] {
        const nlohmann::ordered_json all{{"version", build_info::version}, {"commit", build_info::commit},
                                         {"studies", studies_json()},      {"sections", sections_json()},
                                         {"results", results_json()},      {"placements", placements_json()},
                                         {"recipes", recipes_json()}};
        return config::json_text(all);
      },
      "Returns the program's version, studies, keys, results, placements and recipes as JSON.");
  module.def("resolve", &resolve, "file"_a, "entries"_a, "Returns the resolved configuration as JSON.");
  module.def("parameters", &parameters, "file"_a, "entries"_a,
             "Returns the name and shape of every parameter of one stack.");
  module.def(
      "citation",
      [](const std::map<std::string, std::string>& result) {
        if (result.empty()) return study::citation();
        return study::citation([&](const std::string& name) {
          const auto found = result.find(name);
          if (found == result.end())
            throw InputError(fmt::format("result: expected a text attribute {}, found none", name));
          return printable(found->second);
        });
      },
      "result"_a, "Returns BibTeX of the program, or of a result with these attributes.");
}

}  // namespace periscope::python
