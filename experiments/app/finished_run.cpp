#include "experiments/app/finished_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "experiments/app/netcdf_reader.h"
#include "experiments/app/result_file.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/config/json_text.h"
#include "experiments/core/config/sha256.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

constexpr const char* content_seal = "content_sha256";

using dataset::Column;
using dataset::Dataset;

/// As a file has it: whole numbers, numbers and text.
std::string text_of_fact(const dataset::Fact& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) {
    return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(*number));
  }
  if (const auto* json = std::get_if<dataset::JsonText>(&value)) return config::valid_utf8(json->text);
  return config::valid_utf8(std::get<std::string>(value));
}

/// The SHA-256 of dimensions, attributes and variables, circumstances apart, the same before a file is written and
/// after it is read. Every text stands behind its length, so that no two contents give one sequence of bytes.
std::string content_hash(const Dataset& data) {
  std::string all;
  const auto add = [&](const std::string& text) { all += fmt::format("{}:{}", text.size(), text); };
  for (const auto& [name, length, free] : data.dimensions) add(fmt::format("{} {}", name, length));
  for (const auto& [name, value] : data.facts) {
    if (name == content_seal || name == "circumstances") continue;
    add(name);
    add(text_of_fact(value));
  }
  for (const Column& v : data.columns) {
    for (const std::string& text : {v.name, v.units, v.meaning}) add(text);
    for (const std::string& dimension : v.dimensions) add(dimension);
    if (const auto* words = std::get_if<std::vector<std::string>>(&v.values)) {
      for (const std::string& word : *words) add(config::valid_utf8(word));
      continue;
    }
    for (std::size_t i = 0; i < dataset::size_of(v.values); ++i) {
      all += fmt::format("{:016x}", std::bit_cast<std::uint64_t>(dataset::number_at(v.values, i)));
    }
  }
  return config::sha256_hex(all);
}

std::string text_of(const Dataset& data, std::string_view fact) {
  const dataset::Fact* found = dataset::find(data.facts, fact);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(found);
  return text == nullptr ? "" : *text;
}

/// The exit code of the run that a file is of; none if the file does not say it.
std::optional<int> exit_code_in(const Dataset& data) {
  const dataset::Fact* found = dataset::find(data.facts, "exit_code");
  const auto* code = found == nullptr ? nullptr : std::get_if<std::int64_t>(found);
  return code == nullptr ? std::nullopt : std::optional(static_cast<int>(*code));
}

/// Why the result in a file does not count; "" if it does.
std::string objection(const Dataset& data, const std::string& study, const config::Resolved& resolved) {
  if (text_of(data, "study").empty()) return "it does not say of which study it is";
  if (text_of(data, "study") != study) return fmt::format("it is a result of {}", text_of(data, "study"));
  if (text_of(data, "config_sha256") != config::config_sha256(resolved)) return "it has another configuration";
  if (text_of(data, content_seal).empty()) return "it does not say how its run ended";
  if (text_of(data, content_seal) != content_hash(data)) return "it was changed after it was written";
  if (text_of(data, "program_sha256") != config::program_sha256()) return "another build of the program made it";
  const std::optional<int> code = exit_code_in(data);
  const bool kept = code == static_cast<int>(ExitCode::ok) || code == static_cast<int>(ExitCode::check_failed);
  return kept ? "" : "its exit code depends on the flags of its run";
}

/// Why the JSON file beside a result does not count; "" if it does: it has to be JSON, of the same program and
/// configuration. What else it says is not checked.
std::string objection_to_json(const std::string& path, const Dataset& result) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return fmt::format("{} is missing", path);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  for (const char* name : {"config_sha256", "program_sha256"}) {
    const nlohmann::json::json_pointer place(fmt::format("/provenance/{}", name));
    if (!json.contains(place) || json.at(place) != text_of(result, name)) {
      return fmt::format("{} is not of this result", path);
    }
  }
  return "";
}

}  // namespace

void seal(Dataset& result, ExitCode code, const std::string& table) {
  dataset::set(result.facts, "exit_code", std::int64_t{static_cast<int>(code)});
  dataset::set(result.facts, "table", table);
  dataset::set(result.facts, content_seal, content_hash(result));
}

std::optional<ExitCode> finished_run(const CommonOptions& options, const study::Study& study, const study::Job& job) {
  if (!options.skip_finished) return std::nullopt;
  if (job.run_options.out.empty())
    throw ConfigError("--skip-finished: expected --out or run.out, the folder with the result");
  if (options.json) throw ConfigError("--skip-finished with --json: a result file keeps no JSON; expected one of them");
  const std::string path = result_file(job, "nc");
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return std::nullopt;
  std::string reason;
  Dataset data;
  try {
    data = read_netcdf(path);
    reason = objection(data, study.name, job.resolved);
    if (reason.empty() && study.json_file) reason = objection_to_json(result_file(job, "json"), data);
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
  return static_cast<ExitCode>(exit_code_in(data).value());
}

}  // namespace periscope::app
