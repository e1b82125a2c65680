#include "experiments/core/config/provenance.h"

#include <array>
#include <chrono>
#include <fstream>

#include "experiments/core/config/build_info.h"
#include "experiments/core/config/json_text.h"
#include "experiments/core/config/sha256.h"
#include "experiments/core/config/told.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string>& argv_storage() {
  static std::vector<std::string> argv;
  return argv;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

const std::string& program_sha256() {
  static const std::string hash = build_info::program;
  return hash;
}

void set_argv(std::vector<std::string> argv) { argv_storage() = std::move(argv); }

Resolved resolved(const Config& config) { return resolved(config, config.stacks()); }

Resolved resolved(const Config& config, const std::vector<StackSpec>& specs) {
  const auto sections = [&](bool for_hash) {
    Json stacks = Json::array();
    for (const StackSpec& spec : specs) stacks.push_back(resolved_json(spec, for_hash));
    Json json{{"stacks", stacks},
              {"run", section_json(run_section, config.run, for_hash)},
              {"agreement", section_json(agreement_section, config.agreement, for_hash)},
              {"theory", section_json(theory_section, config.theory, for_hash)},
              {"told", told_differences(config, for_hash)}};
    json["agreement"]["power_limit"] = section_json(power_limit_section, config.agreement.power_limits, for_hash);
    config.add_own_sections(json, for_hash);
    return json;
  };
  return {.printed = sections(false), .hashed = sections(true)};
}

Json provenance(const RunOptions& run, const Resolved& resolved) {
  return {{"program", "periscope"},
          {"version", build_info::version},
          {"commit", build_info::commit},
          {"compiler", build_info::compiler},
          {"cpu", cpu_name()},
          {"device", run.device},
          {"threads", run.threads},
          {"created", utc_now()},
          {"argv", argv_storage()},
          {"config_sha256", sha256_hex(json_text(resolved.hashed))},
          {"config", resolved.printed}};
}

Json provenance(const Config& config) { return provenance(config, resolved(config)); }

Json provenance(const Config& config, const Resolved& resolved) {
  Json all = provenance(config.run, resolved);
  if (theory_is_misled(config)) all["theory_told"] = told_json(config);
  return all;
}

}  // namespace periscope
