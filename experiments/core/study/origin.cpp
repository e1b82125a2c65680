#include "experiments/core/study/origin.h"

#include "experiments/core/config/build_info.h"
#include "experiments/core/config/json_text.h"
#include "experiments/core/config/sha256.h"
#include "sim/backends.h"

namespace periscope::study {

dataset::Facts origin(const Job& job, const config::Resolved& resolved) {
  dataset::Facts facts{{"program", "periscope"},
                       {"version", std::string(build_info::version)},
                       {"commit", std::string(build_info::commit)},
                       {"compiler", std::string(build_info::compiler)},
                       {"program_sha256", config::program_sha256()},
                       {"device", job.run_options.device},
                       {"instructions", std::string(instructions_of(job.run_options.device))},
                       {"config_sha256", config::config_sha256(resolved)},
                       {"config", dataset::JsonText{config::json_text(resolved.printed)}}};
  if (!resolved.differences.is_null()) {
    facts.emplace_back("config_differences", dataset::JsonText{config::json_text(resolved.differences)});
  }
  if (!job.overridden.is_null())
    facts.emplace_back("theory_told", dataset::JsonText{config::json_text(job.overridden)});
  return facts;
}

}  // namespace periscope::study
