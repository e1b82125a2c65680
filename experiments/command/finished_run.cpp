#include "experiments/command/finished_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "experiments/results/json_text.h"
#include "experiments/results/netcdf_reader.h"
#include "experiments/results/sha256.h"
#include "experiments/results/standard_streams.h"
#include "sim/spec/printable.h"

namespace periscope {
namespace {

constexpr const char* seal = "content_sha256";

/// The table without the terminal's escape sequences for colours: ESC [ digits and semicolons m.
std::string without_colours(const std::string& table) {
  std::string plain;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table.compare(i, 2, "\033[") == 0) {
      i = std::min(table.find('m', i), table.size());
    } else {
      plain += table[i];
    }
  }
  return plain;
}

/// As a file has it: whole numbers, numbers and text.
std::string attribute_text(const nlohmann::ordered_json& value) {
  if (value.is_number_integer()) return fmt::format("{}", value.get<long long>());
  if (value.is_number()) return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value.get<double>()));
  return value.is_string() ? valid_utf8(value.get<std::string>()) : json_text(value);
}

/// The SHA-256 of dimensions, attributes and variables, the same before a file is written and after it is read. Every
/// text stands behind its length, so that no two contents give one sequence of bytes.
std::string content_hash(const NetcdfDataset& data) {
  std::string all;
  const auto add = [&](const std::string& text) { all += fmt::format("{}:{}", text.size(), text); };
  for (const auto& [name, length] : data.dimensions) add(fmt::format("{} {}", name, length));
  for (const auto& [name, value] : data.attributes.items()) {
    if (name == seal) continue;
    add(name);
    add(attribute_text(value));
  }
  for (const NetcdfVariable& v : data.variables) {
    for (const std::string& text : {v.name, v.units, v.long_name}) add(text);
    for (const std::string& dimension : v.dimensions) add(dimension);
    if (const auto* numbers = std::get_if<std::vector<double>>(&v.values)) {
      for (const double x : *numbers) all += fmt::format("{:016x}", std::bit_cast<std::uint64_t>(x));
    } else {
      for (const std::string& word : std::get<std::vector<std::string>>(v.values)) add(word);
    }
  }
  return sha256_hex(all);
}

std::string text_of(const NetcdfDataset& data, const std::string& attribute) {
  const auto found = data.attributes.find(attribute);
  return found != data.attributes.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Why the result in a file does not count; "" if it does.
std::string objection(const NetcdfDataset& data, const Resolved& resolved) {
  if (text_of(data, "config_sha256") != sha256_hex(json_text(resolved.hashed))) return "it has another configuration";
  if (text_of(data, seal).empty()) return "it does not say how its run ended";
  if (text_of(data, seal) != content_hash(data)) return "it was changed after it was written";
  if (text_of(data, "program_sha256") != program_sha256()) return "another build of the program made it";
  const auto code = data.attributes.find("exit_code");
  const bool kept = code != data.attributes.end() && code->is_number_integer() &&
                    (*code == static_cast<int>(ExitCode::ok) || *code == static_cast<int>(ExitCode::check_failed));
  return kept ? "" : "its exit code depends on the flags of its run";
}

}  // namespace

void add_outcome(NetcdfDataset& result, ExitCode code, const std::string& table) {
  result.attributes["program_sha256"] = program_sha256();
  result.attributes["exit_code"] = static_cast<int>(code);
  result.attributes["table"] = without_colours(table);
  result.attributes[seal] = content_hash(result);
}

std::optional<ExitCode> finished_run(const CommonOptions& options, const std::string& name, const std::string& out,
                                     const Resolved& resolved, bool json_file) {
  if (!options.skip_finished) return std::nullopt;
  if (out.empty()) throw ConfigError("--skip-finished: expected --out or run.out, the folder with the result");
  if (options.json) throw ConfigError("--skip-finished with --json: a result file keeps no JSON; expected one of them");
  const std::string path = fmt::format("{}/{}.nc", out, name);
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return std::nullopt;
  std::string reason;
  NetcdfDataset data;
  try {
    data = read_netcdf(path);
    reason = objection(data, resolved);
    if (reason.empty() && json_file && !std::filesystem::exists(fmt::format("{}/{}.json", out, name), unreadable)) {
      reason = fmt::format("{}.json is missing", name);
    }
  } catch (const InputError& error) {
    reason = error.what();
  }
  if (!reason.empty()) {
    if (!options.quiet)
      print_message(
          fmt::format("runs again, {} is there but does not count: {}\n", printable(path), printable(reason)));
    return std::nullopt;
  }
  if (!options.quiet) {
    print_message(fmt::format("skipped: {} is the result of this configuration and program\n{}", printable(path),
                              printable(text_of(data, "table"), Layout::lines)));
  }
  return static_cast<ExitCode>(data.attributes.at("exit_code").get<int>());
}

}  // namespace periscope
