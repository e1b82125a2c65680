#include "experiments/sweeps/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/studies/studies.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/files/files_below.h"
#include "sim/files/mapped_file.h"

namespace periscope::sweeps {
namespace {

constexpr int format_version = 1;
constexpr double max_cells = 1e7;
constexpr std::size_t max_blocks = 10'000;
/// Keys and flags that name outputs or affect only the execution.
constexpr std::string_view execution_keys[] = {"run.out", "run.threads"};
constexpr std::string_view output_flags[] = {"dump", "export"};
/// Flags that may name input files.
constexpr std::string_view input_flags[] = {"checkpoint", "tokens", "text", "tokenizer"};

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::end(list);
}

/// Flag of a study with parts, and name of the axis of parts.
constexpr std::string_view part_flag = "shard";

/// Makes a relative path absolute, so that a plan can be run from any folder.
void make_absolute(const std::string& key, Json& value, const std::filesystem::path& folder) {
  const bool is_path = key == "input.path" || (key == "train.corpus" && value != "synthetic");
  if (!is_path || !value.is_string()) return;
  value = std::filesystem::absolute(folder / value.get<std::string>()).lexically_normal().string();
}

std::filesystem::path folder_of(const std::string& file) { return std::filesystem::path(file).parent_path(); }

/// Returns the keys "section.key" of a configuration, in the order of their locations.
std::vector<Setting> flat(const config::Tree& tree) {
  std::vector<std::pair<config::Location, Setting>> found;
  const auto add = [&](const std::string& key, const Json& value) {
    const auto at = tree.locations.find(key);
    const config::Location location = at == tree.locations.end() ? config::Location{} : at->second;
    found.emplace_back(location, Setting{key, value});
    make_absolute(key, found.back().second.second, location.setting == 0 ? folder_of(tree.file) : "");
  };
  for (const auto& [section, keys] : tree.values.items()) {
    if (!keys.is_object()) add(section, keys);
    for (const auto& [key, value] : keys.items()) {
      if (keys.is_object()) add(fmt::format("{}.{}", section, key), value);
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  return mapped(found, [](const auto& one) { return one.second; });
}

void require_flags(const study::Study& study, const study::FlagValues& flags, const std::string& source) {
  const std::vector<std::string> names = mapped(study.flags, &study::FlagText::name);
  for (const auto& item : flags) {
    const std::string& flag = item.first;
    if (flag == part_flag) throw ConfigError(fmt::format("{}: {}: unsupported, as cells are parts", source, flag));
    if (contains(output_flags, flag)) {
      throw ConfigError(fmt::format("{}: {}: unsupported in a sweep, as all cells would write to it", source, flag));
    }
    const auto known = std::ranges::find(study.flags, flag, &study::FlagText::name);
    if (known != study.flags.end() && known->toggle && !item.second.empty()) {
      throw ConfigError(fmt::format("{}: {} = {}: expected no value", source, flag, shortened(item.second.front())));
    }
    if (known != study.flags.end()) continue;
    throw ConfigError(fmt::format("{}: {}: expected a flag of {}: {}{}", source, shortened(flag), study.name,
                                  fmt::join(names, ", "), suggestion(flag, names)));
  }
}

void require_axis(const study::Study& study, const GridAxis& axis, std::set<std::string>& seen,
                  const std::string& source) {
  const std::vector<std::string> effective = study::effective_keys(study);
  for (const auto& [key, values] : axis.keys) {
    const auto require = [&, &name = key](bool holds, const std::string& expected) {
      if (!holds) throw ConfigError(fmt::format("{}: {}: {}", source, shortened(name), expected));
    };
    require(!values.empty(), "expected at least one value");
    require(values.size() == axis.size(),
            fmt::format("expected {} values, as many as for {}, found {}", axis.size(), axis.name(), values.size()));
    require(seen.insert(key).second, "expected each key once, found it twice");
    if (key == part_flag && study.parts) continue;
    require(key.find('.') != std::string::npos && key.find("..") == std::string::npos && key.front() != '.' &&
                key.back() != '.',
            "expected a key with its section, such as \"model.layers\"");
    if (key == axis.name()) config::require_different(key, mapped(values, config::toml_text));
    require(!contains(execution_keys, key), "cannot be swept, as it does not change results");
    const bool has_effect = std::ranges::any_of(effective, [&, &name = key](const std::string& prefix) {
      return prefix.ends_with('.') ? name.starts_with(prefix) : name == prefix;
    });
    const std::string section = key.substr(0, key.find('.'));
    const bool is_known = std::ranges::any_of(
        sections(), [&, &name = key](const config::AnySection& one) { return name.starts_with(one.name + "."); });
    require(is_known, "unknown section" + suggestion(section, mapped(sections(), &config::AnySection::name)));
    require(has_effect, fmt::format("has no effect in {}", study.name));
  }
}

/// Returns the arguments of a study's flag for a TOML value. Throws ConfigError.
std::optional<std::vector<std::string>> words_of(const study::Study& study, const std::string& name, const Json& value,
                                                 const std::string& source) {
  const auto flag = std::ranges::find(study.flags, name, &study::FlagText::name);
  if (flag == study.flags.end()) return std::vector<std::string>();  // rejected later
  const bool is_toggle = flag->toggle;
  if (is_toggle && value.is_boolean()) {
    return value.get<bool>() ? std::optional(std::vector<std::string>()) : std::nullopt;
  }
  if (is_toggle || value.is_object() || value.is_boolean()) {
    throw ConfigError(fmt::format("{}: sweep.{} = {}: expected {}", source, shortened(name),
                                  shortened(config::toml_text(value)), is_toggle ? "true or false" : "a value"));
  }
  const std::vector<Json> all = value.is_array() ? value.get<std::vector<Json>>() : std::vector{value};
  return mapped(all, config::plain_text);
}

}  // namespace

study::FlagValues flags_of(const std::vector<std::string>& words) {
  study::FlagValues flags;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    std::vector<std::string>& values = flags[word.substr(0, equals)];
    if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
  }
  return flags;
}

const study::Study& study_of_sweep(const std::string& name) {
  const auto found = std::ranges::find(studies(), name, &study::Study::name);
  if (found != studies().end() && found->schema != nullptr && found->configuration.empty()) return *found;
  std::vector<std::string> names;
  for (const study::Study& one : studies()) {
    if (one.schema != nullptr && one.configuration.empty()) names.push_back(one.name);
  }
  throw ConfigError(fmt::format("study \"{}\": expected one of {}{}", shortened(name), fmt::join(names, ", "),
                                suggestion(name, names)));
}

std::string content_hash(const std::string& path) {
  std::error_code error;
  const std::vector<std::string> files = files_below(path, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return "";
  if (error) throw InputError(fmt::format("{}: {}", printable(path), error.message()));
  std::string all;
  for (const std::string& file : files) {
    all += std::filesystem::path(file).lexically_relative(path).generic_string() + config::sha256_of(MappedFile(file));
  }
  return config::sha256_hex(all);
}

std::string GridPlan::hash_of_files() const {
  std::string all;
  for (const std::string_view name : input_flags) {
    const auto words = flags_.find(std::string(name));
    if (words == flags_.end()) continue;
    for (const std::string& word : words->second) all += content_hash(word);
  }
  return all;
}

const std::string& GridPlan::files_of_flags() const {
  std::call_once(files_of_flags_->once, [&] { files_of_flags_->text = hash_of_files(); });
  return files_of_flags_->text;
}

void GridPlan::require_unchanged_files() const {
  if (files_of_flags().empty() || hash_of_files() == files_of_flags()) return;
  throw InputError("a file that a flag names changed during the run; its cells were not stored");
}

GridPlan::GridPlan(const Draft& draft)
    : study_(&study_of_sweep(draft.study)), flags_(draft.flags), base_(flat(draft.base)), axes_(draft.axes) {
  require_flags(*study_, flags_, draft.source);
  std::erase_if(base_, [](const Setting& one) { return contains(execution_keys, one.first); });
  for (const auto& [key, value] : base_) tree_.put(key, value, draft.source);
  if (axes_.empty() && study_->parts) {
    const std::size_t count = study_->parts(request(0));
    std::vector<Json> parts;
    for (std::size_t k = 1; k <= count; ++k) parts.emplace_back(fmt::format("{}/{}", k, count));
    axes_.push_back({{{std::string(part_flag), parts}}});
  }
  if (axes_.empty()) throw ConfigError(fmt::format("{}: expected at least one swept key", draft.source));
  std::set<std::string> seen;
  double count = 1.0;
  for (const GridAxis& axis : axes_) {
    require_axis(*study_, axis, seen, draft.source);
    count *= static_cast<double>(axis.size());
  }
  if (count > max_cells) {
    throw ConfigError(fmt::format("{}: expected at most {:g} cells, found {:g}", draft.source, max_cells, count));
  }
  cells_ = static_cast<std::size_t>(count);
  periods_.resize(axes_.size(), 1);
  for (std::size_t a = axes_.size() - 1; a-- > 0;) periods_[a] = periods_[a + 1] * axes_[a + 1].size();
  for (GridAxis& axis : axes_) {
    for (auto& [key, values] : axis.keys) {
      for (Json& value : values) make_absolute(key, value, "");
    }
  }
}

Json GridPlan::json() const {
  Json axes = Json::array();
  for (const GridAxis& axis : axes_) {
    Json& keys = axes.emplace_back(Json::object());
    for (const auto& [key, values] : axis.keys) keys[key] = values;
  }
  Json base = Json::object();
  for (const auto& [key, value] : base_) base[key] = value;
  return {{"format", format_version}, {"study", study_->name}, {"flags", flags_}, {"axes", axes}, {"base", base}};
}

GridPlan GridPlan::read(const std::string& path) {
  const MappedFile file(path);
  try {
    const Json json =
        Json::parse(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()));
    if (json.at("format") != format_version) throw InputError(fmt::format("expected format {}", format_version));
    Draft draft{.study = json.at("study"), .flags = json.at("flags"), .base = {}, .axes = {}, .source = path};
    for (const Json& keys : json.at("axes")) {
      GridAxis& axis = draft.axes.emplace_back();
      for (const auto& [key, values] : keys.items()) axis.keys.emplace_back(key, values.get<std::vector<Json>>());
      if (axis.keys.empty()) throw InputError("expected at least one key on every axis");
    }
    if (!json.at("base").is_object()) throw InputError("expected a table of keys in base");
    for (const auto& [key, value] : json.at("base").items()) draft.base.put(key, value, path);
    return GridPlan(draft);
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("{}: not a plan of a sweep: {}", printable(path), error.what()));
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}; run `periscope sweep plan` again", printable(path), error.what()));
  }
}

bool GridPlan::has_parts() const { return axes_.front().name() == part_flag; }

std::size_t GridPlan::cells_per_block() const { return (cells_ + max_blocks - 1) / max_blocks; }

std::size_t GridPlan::blocks() const { return (cells_ + cells_per_block() - 1) / cells_per_block(); }

std::size_t GridPlan::index_of(std::size_t cell, std::size_t axis) const {
  return cell / periods_[axis] % axes_[axis].size();
}

std::string GridPlan::label(std::size_t cell) const {
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    for (const auto& [key, values] : axes_[a].keys) {
      parts.push_back(fmt::format("{} = {}", key, shortened(config::plain_text(values[index_of(cell, a)]))));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

study::Request GridPlan::request(std::size_t cell, int threads) const {
  config::Tree tree = tree_;
  study::FlagValues flags = flags_;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    for (const auto& [key, values] : axes_[a].keys) {
      const Json& value = values[index_of(cell, a)];
      if (key == part_flag) {
        flags[key] = {config::plain_text(value)};
      } else {
        tree.put(key, value, key);
      }
    }
  }
  study::Request request{.known = sections(), .parsed = std::make_shared<const config::Tree>(std::move(tree))};
  request.run["threads"] = {std::to_string(threads)};
  request.flags = std::move(flags);
  request.texts = texts_;
  request.command = study_->name;
  request.effective_keys = study::effective_keys(*study_);
  return request;
}

std::vector<std::pair<std::string, std::vector<Json>>> lists_of(const std::vector<std::string>& arguments,
                                                                std::string_view flag) {
  std::vector<std::pair<std::string, std::vector<Json>>> lists;
  for (const std::string& argument : arguments) {
    config::Tree tree;
    tree.set(argument, flag);
    const std::string key = config::key_of_setting(argument, flag);
    const Json* value = tree.find(key);
    if (!value->is_array()) {
      throw ConfigError(
          fmt::format("{} {}: expected a list, as in {} 'model.layers=[12, 24]'", flag, shortened(argument), flag));
    }
    lists.emplace_back(key, value->get<std::vector<Json>>());
  }
  return lists;
}

Draft read_draft(const std::string& file) {
  const config::Tree tree = config::read_tree(file);
  const auto fail = [&](const std::string& key, const std::string& expected) {
    const auto at = tree.locations.find(key);
    const std::string line = at == tree.locations.end() ? "" : fmt::format(":{}", at->second.line);
    throw ConfigError(fmt::format("{}{}: {}: expected {}", printable(file), line, shortened(key), expected));
  };
  for (const auto& [name, table] : tree.values.items()) {
    if (name != "sweep" && name != "base") fail(name, "[sweep] or [base]");
  }
  const Json sweep = tree.values.value("sweep", Json::object());
  if (!sweep.is_object() || !sweep.contains("study") || !sweep["study"].is_string()) {
    fail("sweep.study", "the name of a study, such as \"propagate\"");
  }
  Draft draft{.study = sweep["study"], .flags = {}, .base = {}, .axes = {}, .source = printable(file)};
  const study::Study& study = study_of_sweep(draft.study);
  std::vector<std::pair<config::Location, GridAxis>> axes;
  const auto list = [&](const std::string& path, const Json& values) {
    if (!values.is_array()) fail(path, "a list of values");
    auto all = values.get<std::vector<Json>>();
    for (Json& value : all)
      make_absolute(path.substr(path.rfind('.', path.rfind('.') - 1) + 1), value, folder_of(file));
    return all;
  };
  for (const auto& [name, value] : sweep.items()) {
    if (name == "study") continue;
    if (name == "grid") {
      if (!value.is_object()) fail("sweep.grid", "a table of keys with lists of values");
      for (const auto& [key, values] : value.items()) {
        const std::string path = "sweep.grid." + key;
        axes.emplace_back(tree.locations.at(path), GridAxis{{{key, list(path, values)}}});
      }
    } else if (name == "zip") {
      if (!value.is_array()) fail("sweep.zip", "[[sweep.zip]], a list of tables");
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string path = fmt::format("sweep.zip.{}", i);
        if (!value[i].is_object() || value[i].empty()) fail(path, "a table of keys with lists of values");
        std::vector<std::pair<config::Location, std::pair<std::string, std::vector<Json>>>> keys;
        for (const auto& [key, values] : value[i].items()) {
          const std::string at = fmt::format("{}.{}", path, key);
          keys.emplace_back(tree.locations.at(at), std::pair{key, list(at, values)});
        }
        std::ranges::stable_sort(keys, {}, [](const auto& one) { return one.first; });
        axes.emplace_back(keys.front().first, GridAxis{mapped(keys, [](const auto& one) { return one.second; })});
      }
    } else if (const auto words = words_of(study, name, value, draft.source)) {
      draft.flags[name] = *words;
    }
  }
  std::ranges::stable_sort(axes, {}, [](const auto& one) { return one.first; });
  draft.axes = mapped(axes, [](const auto& one) { return one.second; });
  const Json base = tree.values.value("base", Json::object());
  if (base.is_string()) {
    draft.base = config::read_tree((folder_of(file) / base.get<std::string>()).lexically_normal().string());
  } else if (base.is_object()) {
    draft.base = {.file = file, .values = base};
    for (const auto& [path, location] : tree.locations) {
      if (path.starts_with("base.")) draft.base.locations[path.substr(5)] = location;
    }
  } else {
    fail("base", "a configuration, or the path of its file");
  }
  return draft;
}

}  // namespace periscope::sweeps
