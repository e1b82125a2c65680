#include "experiments/engine/settings/resolved.h"

#include <fmt/format.h>

#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/differences.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"

namespace periscope::config {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

const std::string& program_sha256() {
  static const std::string hash = sha256_hex(fmt::format("{}\n{}\n", build_info::program, instructions_of("cpu")));
  return hash;
}

Resolved resolved(const Config& config) { return resolved(config, config.stacks()); }

Resolved resolved(const Config& config, const std::vector<StackSpec>& specs) {
  const auto sections = [&](bool for_hash) {
    Json stacks = Json::array();
    for (const StackSpec& spec : specs) stacks.push_back(resolved_json(spec, for_hash));
    Json json{{"stacks", stacks},
              {"run", section_json(run_section, config.run, for_hash)},
              {"agreement", section_json(agreement_section, config.agreement, for_hash)},
              {"theory", section_json(theory_section, config.theory, for_hash)},
              {"told", override_differences(config, for_hash)}};
    json["agreement"]["power_limit"] = section_json(power_limit_section, config.agreement.power_limits, for_hash);
    config.add_own_sections(json, for_hash);
    return json;
  };
  return {.printed = sections(false), .hashed = sections(true), .differences = config_differences(config, specs)};
}

std::string config_sha256(const Resolved& resolved) { return sha256_hex(json_text(resolved.hashed)); }

}  // namespace periscope::config
