#include "experiments/sweeps/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/studies/studies.h"
#include "experiments/sweeps/survey.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::sweeps {
namespace {

using dataset::Column;
using dataset::Dataset;
using dataset::Type;
using dataset::Values;

/// A column of the gathered result.
struct GatheredColumn {
  Column column;
  std::vector<std::size_t> axis_strides;  ///< by axis
  std::vector<std::size_t> own_strides;   ///< by own dimension; 0 if the column does not have it
};

/// Returns the name, units and meaning of a key's coordinate, with typed values.
Column coordinate_of(const std::string& key, const std::vector<Json>& list, const std::string& dimension) {
  Column column{.name = key, .dimensions = {dimension}, .values = {}, .units = "1", .meaning = key, .label = true};
  for (const config::AnySection& section : sections()) {
    for (const Json& known : section.keys) {
      if (known["name"] != key) continue;
      column.meaning = known["meaning"].get<std::string>();
      if (const std::string unit = known["unit"]; !unit.empty()) column.units = unit;
    }
  }
  const auto all = [&](auto is) { return std::ranges::all_of(list, is); };
  if (all([](const Json& v) { return v.is_boolean(); })) {
    column.values = mapped(list, [](const Json& v) { return static_cast<std::uint8_t>(v.get<bool>()); });
  } else if (all([](const Json& v) { return v.is_number_integer(); })) {
    column.values = mapped(list, [](const Json& v) { return v.get<std::int64_t>(); });
  } else if (all([](const Json& v) { return v.is_number(); })) {
    column.values = mapped(list, [](const Json& v) { return v.get<double>(); });
  } else {
    column.values = mapped(list, config::plain_text);
    column.units = "";
  }
  return column;
}

class Gatherer {
 public:
  Gatherer(const GridPlan& plan, const CellIds& ids, const CellIndex& index)
      : plan_(plan), ids_(ids), cells_(index), survey_(*plan.study().schema) {
    for (std::size_t a = 0; a < plan.axes().size(); ++a) axis_names_.push_back(plan.axes()[a].name());
  }

  /// Reads all layouts: which columns exist, and the lengths and coordinates of dimensions.
  void survey(stacks::Progress& progress) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < plan_.cells(); ++i) {
      progress.throw_if_stop_requested();
      const StoredCell* cell = cells_.read(ids_.ids[i]);
      if (cell == nullptr || cell->failed()) continue;
      const Dataset& data = decoder_.decode(*cell);
      if (decoder_.version() == last) continue;
      last = decoder_.version();
      survey_.add(data);
    }
    survey_.finish();
    survey_.use_axes(plan_.axes(), axis_names_);
  }

  [[nodiscard]] Dataset gather(const std::vector<std::string>& wanted, stacks::Progress& progress) {
    declare(wanted);
    std::size_t last = 0;
    std::vector<std::string> statuses(plan_.cells(), "missing");
    std::vector<std::string> messages(plan_.cells());
    std::vector<std::int64_t> codes(plan_.cells(), dataset::missing_integer);
    for (std::size_t i = 0; i < plan_.cells(); ++i) {
      progress.throw_if_stop_requested();
      const StoredCell* cell = cells_.read(ids_.ids[i]);
      if (cell != nullptr) {
        statuses[i] = cell->failed() ? "failed" : "done";
        codes[i] = static_cast<std::int64_t>(cell->code);
        if (cell->failed()) {
          messages[i] = cell->values;
        } else {
          const Dataset& data = decoder_.decode(*cell);
          if (decoder_.version() != last) set_places(data);
          last = decoder_.version();
          put(i, data, *cell);
          note_axis_labels(i, data);
        }
      }
      progress.step("");
    }
    Dataset data = assemble();
    const auto add = [&](const std::string& name, Values values, const std::string& units, const std::string& meaning) {
      data.columns.push_back({name, axis_names_, std::move(values), units, meaning});
    };
    const bool any_failed = std::ranges::count(statuses, "failed") > 0;
    add("cell_status", std::move(statuses), "", "state of a cell: done, failed or missing");
    add("cell_exit_code", std::move(codes), "1", "exit code of a cell's run");
    if (any_failed) add("cell_message", std::move(messages), "", "why a cell failed");
    return data;
  }

  [[nodiscard]] const dataset::Attributes& attributes() const { return survey_.attributes; }

 private:
  [[nodiscard]] std::size_t length_of(const OwnDimension& own) const {
    return own.axis ? plan_.axes()[*own.axis].size() : own.length();
  }

  /// Returns true for coordinates and labels that all cells share.
  [[nodiscard]] bool is_shared(const dataset::ColumnSpec& spec) const {
    if (spec.dimensions == spec.name) return !own(spec.name).is_spread();
    if (!spec.label || spec.axes().size() != 1) return false;
    const OwnDimension& on = own(spec.dimensions);
    return !on.axis && !on.is_spread() && !survey_.labels.at(spec.name).differs;
  }

  [[nodiscard]] const OwnDimension& own(const std::string& name) const {
    return survey_.own[plan_.study().schema->dimension(name)];
  }

  /// Declares the gathered columns with missing values.
  void declare(const std::vector<std::string>& wanted) {
    const dataset::Schema& schema = *plan_.study().schema;
    std::vector<std::string> names = mapped(schema.columns(), &dataset::ColumnSpec::name);
    for (const std::string& name : wanted) {
      if (std::ranges::find(names, name) != names.end()) continue;
      throw ConfigError(
          fmt::format("column {}: expected a column of {}{}", name, plan_.study().name, suggestion(name, names)));
    }
    columns_.resize(names.size());
    for (std::size_t c = 0; c < names.size(); ++c) {
      const dataset::ColumnSpec& spec = schema.columns()[c];
      const bool is_wanted = wanted.empty() || std::ranges::find(wanted, spec.name) != wanted.end();
      if (!survey_.present[c] || !is_wanted || is_shared(spec)) continue;
      declare(c, spec);
    }
  }

  void declare(std::size_t c, const dataset::ColumnSpec& spec) {
    GatheredColumn gathered;
    std::vector<std::pair<std::string, std::size_t>> dimensions;  // name, length
    const std::vector<std::size_t>& own_axes = plan_.study().schema->axes_of(c);
    for (std::size_t a = 0; a < axis_names_.size(); ++a) {
      const bool is_own =
          std::ranges::any_of(own_axes, [&](std::size_t d) { return survey_.own[d].axis == std::optional(a); });
      if (!is_own) dimensions.emplace_back(axis_names_[a], plan_.axes()[a].size());
    }
    for (const std::size_t d : own_axes) dimensions.emplace_back(survey_.own[d].name, length_of(survey_.own[d]));
    gathered.axis_strides.resize(axis_names_.size());
    gathered.own_strides.resize(survey_.own.size());
    std::size_t stride = 1;
    for (std::size_t k = dimensions.size(); k-- > 0;) {
      for (std::size_t a = 0; a < axis_names_.size(); ++a) {
        if (axis_names_[a] == dimensions[k].first) gathered.axis_strides[a] = stride;
      }
      for (std::size_t d = 0; d < survey_.own.size(); ++d) {
        if (survey_.own[d].name == dimensions[k].first && !survey_.own[d].axis) gathered.own_strides[d] = stride;
      }
      stride *= dimensions[k].second;
    }
    const bool is_coordinate = spec.dimensions == spec.name;
    gathered.column = {.name = (is_coordinate ? "cell_" : "") + spec.name,
                       .dimensions = mapped(dimensions, [](const auto& d) { return d.first; }),
                       .values = missing_values(spec.type, stride),
                       .units = spec.units,
                       .meaning = spec.meaning};
    columns_[c] = std::move(gathered);
  }

  /// Computes, for cells with this layout, the place in the gathered columns of every value.
  void set_places(const Dataset& data) {
    const dataset::Schema& schema = *plan_.study().schema;
    std::vector<std::vector<std::size_t>> index(
        survey_.own.size());  // by own dimension: of a cell's entry in the result
    for (std::size_t d = 0; d < survey_.own.size(); ++d) {
      const auto found = std::ranges::find(data.dimensions, survey_.own[d].name, &dataset::Dimension::name);
      if (found == data.dimensions.end()) continue;
      const Column* coordinate = data.find(survey_.own[d].name);
      for (std::size_t i = 0; i < found->length; ++i) {
        index[d].push_back(survey_.own[d].has_union() && coordinate != nullptr
                               ? survey_.own[d].seen.at(coordinate_at(coordinate->values, i))
                               : i);
      }
    }
    places_.assign(data.columns.size(), {});
    targets_.assign(data.columns.size(), nullptr);
    for (std::size_t k = 0; k < data.columns.size(); ++k) {
      const std::size_t c = schema.index_of(data.columns[k].name);
      if (!columns_[c]) continue;
      targets_[k] = &*columns_[c];
      std::vector<std::size_t>& places = places_[k];
      places = {0};
      for (const std::size_t d : schema.axes_of(c)) {
        std::vector<std::size_t> longer;
        for (const std::size_t before : places) {
          for (const std::size_t i : index[d]) longer.push_back(before + i * columns_[c]->own_strides[d]);
        }
        places = std::move(longer);
      }
    }
  }

  /// Stores the values of a cell.
  void put(std::size_t cell, const Dataset& data, const StoredCell& stored) {
    const std::vector<Values> values = values_of(stored.values);
    std::size_t next = 0;
    for (std::size_t k = 0; k < data.columns.size(); ++k) {
      const bool in_layout = is_coordinate_or_label(data.columns[k]);
      if (!in_layout && next == values.size()) throw InputError("a cell lacks values");
      const Values& from = in_layout ? data.columns[k].values : values[next++];
      GatheredColumn* const to = targets_[k];
      if (to == nullptr) continue;
      std::size_t start = 0;
      for (std::size_t a = 0; a < axis_names_.size(); ++a) start += to->axis_strides[a] * plan_.index_of(cell, a);
      const std::vector<std::size_t>& places = places_[k];
      if (dataset::size_of(from) != places.size()) {
        throw InputError(fmt::format("column {}: found {} values in a cell, expected {}", to->column.name,
                                     dataset::size_of(from), places.size()));
      }
      std::visit(
          [&](auto& all) {
            const auto* some = std::get_if<std::remove_cvref_t<decltype(all)>>(&from);
            if (some == nullptr) throw InputError(fmt::format("column {}: unexpected type", to->column.name));
            for (std::size_t i = 0; i < places.size(); ++i) all[start + places[i]] = (*some)[i];
          },
          to->column.values);
    }
  }

  /// Notes the coordinates of axes that use a dimension of the result.
  void note_axis_labels(std::size_t cell, const Dataset& data) {
    for (const OwnDimension& one : survey_.own) {
      if (!one.axis) continue;
      std::vector<std::string>& labels = axis_labels_[*one.axis];
      labels.resize(plan_.axes()[*one.axis].size());
      std::string& label = labels[plan_.index_of(cell, *one.axis)];
      if (label.empty()) label = std::get<std::string>(coordinate_at(data.find(one.name)->values, 0));
    }
  }

  /// Returns the dataset of coordinates and gathered columns.
  [[nodiscard]] Dataset assemble() {
    const dataset::Schema& schema = *plan_.study().schema;
    Dataset data;
    for (std::size_t a = 0; a < axis_names_.size(); ++a) {
      const GridAxis& axis = plan_.axes()[a];
      data.dimensions.push_back({axis_names_[a], axis.size()});
      for (const auto& [key, values] : axis.keys) {
        Column column = coordinate_of(key, values, axis_names_[a]);
        if (&key == &axis.keys.front().first) {
          column.name = axis_names_[a];
          column.label = false;
          if (axis_labels_.contains(a)) {
            auto& texts = std::get<std::vector<std::string>>(column.values);
            for (std::size_t v = 0; v < texts.size(); ++v) {
              if (!axis_labels_[a][v].empty()) texts[v] = axis_labels_[a][v];
            }
          }
        }
        data.columns.push_back(std::move(column));
      }
    }
    for (const OwnDimension& one : survey_.own) {
      const bool is_used = std::ranges::any_of(columns_, [&](const auto& c) {
        return c && std::ranges::find(c->column.dimensions, one.name) != c->column.dimensions.end();
      });
      if (!is_used || one.axis) continue;
      data.dimensions.push_back({one.name, one.length(), one.free});
      add_coordinates(schema, one, data);
    }
    for (auto& gathered : columns_) {
      if (gathered) data.columns.push_back(std::move(gathered->column));
    }
    return data;
  }

  void add_coordinates(const dataset::Schema& schema, const OwnDimension& one, Dataset& data) const {
    for (std::size_t c = 0; c < schema.columns().size(); ++c) {
      const dataset::ColumnSpec& spec = schema.columns()[c];
      const bool is_coordinate = spec.name == one.name;
      if (!survey_.present[c] || spec.dimensions != one.name || !(is_coordinate || is_shared(spec))) continue;
      Values values = missing_values(spec.type, one.length());
      for (std::size_t i = 0; i < one.length(); ++i) {
        Coordinate at = static_cast<std::int64_t>(i);
        if (one.is_spread()) {
          at = spec.type == Type::text   ? Coordinate(fmt::format("varies{}", i == 0 ? "" : fmt::format(" {}", i)))
                 : spec.type == Type::real ? Coordinate(static_cast<double>(i))
                                         : at;
        } else if (one.coordinate) {
          at = one.has_union() ? one.all[i] : coordinate_at(*one.coordinate, i);
        }
        if (is_coordinate) {
          set_value(values, i, at);
        } else if (const auto found = survey_.labels.at(spec.name).values.find(at);
                   found != survey_.labels.at(spec.name).values.end()) {
          set_value(values, i, found->second);
        }
      }
      data.columns.push_back({spec.name, {one.name}, std::move(values), spec.units, spec.meaning, spec.label});
    }
  }

  const GridPlan& plan_;
  const CellIds& ids_;
  CellReader cells_;
  LayoutDecoder decoder_;
  CellSurvey survey_;
  std::vector<std::string> axis_names_;
  std::map<std::size_t, std::vector<std::string>> axis_labels_;
  std::vector<std::optional<GatheredColumn>> columns_;  ///< in the order of the schema
  std::vector<std::vector<std::size_t>> places_;
  std::vector<GatheredColumn*> targets_;
};

/// Returns the parts of the resolved configuration that are the same for all values of every axis.
config::Resolved common_settings(const GridPlan& plan, const CellIds& ids, std::optional<study::Job>& job) {
  config::Resolved common;
  std::set<std::size_t> invalid(ids.invalid.begin(), ids.invalid.end());
  std::size_t period = plan.cells();
  std::vector<std::size_t> cells{0};
  for (const GridAxis& axis : plan.axes()) {
    period /= axis.size();
    for (std::size_t v = 1; v < axis.size(); ++v) cells.push_back(v * period);
  }
  std::size_t first = 0;
  while (invalid.contains(first)) ++first;
  cells.push_back(first);  // the others may all be invalid
  for (const std::size_t cell : cells) {
    if (cell >= plan.cells() || invalid.contains(cell)) continue;
    ResolvedCell resolved = resolve(plan, cell);
    if (!resolved.job) continue;
    const config::Resolved& next = resolved.job->resolved;
    common.printed = job ? common_part(common.printed, next.printed) : next.printed;
    common.hashed = job ? common_part(common.hashed, next.hashed) : next.hashed;
    common.differences = job ? common_part(common.differences, next.differences) : next.differences;
    if (!job) job = std::move(resolved.job);
  }
  // Some studies know their settings only after the run.
  if (common.printed.is_null()) common.printed = plan.request(first).parsed->values;
  return common;
}

}  // namespace

Gathered gather(const std::string& folder, const GatherSettings& settings, stacks::Progress& progress) {
  const GridPlan plan = read_plan(folder);
  if (plan.has_parts()) {
    throw ConfigError(fmt::format("{}: a sweep over the parts of one run; `periscope {} --out {}` gives its result",
                                  printable(folder), plan.study().name, printable(folder)));
  }
  const CellIds ids = ids_of_cells(plan, folder, progress);
  const CellIndex index(folder);
  Gathered gathered{.data = {}, .counts = {}, .damaged = index.damaged()};
  for (const CellId& id : ids.ids) gathered.counts.add(index.find(id));
  const bool complete = gathered.counts.missing() == 0 && gathered.counts.failed == 0;
  if (!complete && !settings.partial) return gathered;
  progress.begin("gather", static_cast<std::int64_t>(plan.cells()));
  Gatherer gatherer(plan, ids, index);
  gatherer.survey(progress);
  study::Outcome outcome{.data = gatherer.gather(settings.columns, progress), .code = gathered.counts.code()};
  std::optional<study::Job> job;
  outcome.resolved = common_settings(plan, ids, job);
  if (!job) throw InputError(fmt::format("{}: expected at least one valid cell", folder));
  outcome.data->attributes = gatherer.attributes().is_null() ? Json::object() : gatherer.attributes();
  study::add_provenance(plan.study(), *job, outcome);
  const Json json = plan.json();
  outcome.data->attributes["sweep"] = json;
  outcome.data->attributes["sweep_sha256"] = config::sha256_hex(config::json_text(json));
  outcome.data->attributes["complete"] = complete ? 1 : 0;
  gathered.data = std::move(outcome.data);
  progress.finish("gathered");
  return gathered;
}

}  // namespace periscope::sweeps
