#include "experiments/engine/study/study.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "experiments/engine/result/serialize.h"
#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/backends.h"

namespace periscope::study {
namespace {

/// Escapes text for use inside BibTeX braces.
std::string bibtex(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\{}~^").find(c) != std::string_view::npos) continue;
    if (std::string_view("%&#_$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::vector<std::string> effective_keys(const Study& study) {
  std::vector<std::string> keys = study.shared_keys;
  std::ranges::move(keys_of_flags(study.without), std::back_inserter(keys));
  for (const config::AnySection& section : study.sections) keys.push_back(section.name + ".");
  return keys;
}

std::string result_file(const Job& job, const std::string& extension) {
  return job.run_options.out + "/" + job.file + "." + extension;
}

std::optional<cache::Cache> cache_of(const Study& study, const Job& job) {
  if (job.run_options.out.empty() || job.resolved.hashed.is_null()) return std::nullopt;
  return cache::Cache(job.run_options.out, job.file.empty() ? study.name : job.file, job.resolved);
}

void add_provenance(const Study& study, const Job& job, Outcome& outcome) {
  const config::Resolved& resolved = outcome.resolved ? *outcome.resolved : job.resolved;
  dataset::Attributes attributes{{"program", "periscope"},
                                 {"version", build_info::version},
                                 {"commit", build_info::commit},
                                 {"compiler", build_info::compiler},
                                 {"program_sha256", config::program_sha256()},
                                 {"device", job.run_options.device},
                                 {"instructions", instructions_of(job.run_options.device)},
                                 {"config_sha256", config::config_sha256(resolved)},
                                 {"config", resolved.printed}};
  if (!resolved.differences.is_null()) attributes["config_differences"] = resolved.differences;
  if (!job.overridden.is_null()) attributes["theory_override"] = job.overridden;
  attributes["study"] = study.name;
  attributes["result"] = study.schema->kind();
  attributes["result_version"] = study.schema->version();
  attributes.update(outcome.data->attributes);
  attributes["exit_code"] = static_cast<int>(outcome.code);
  outcome.data->attributes = std::move(attributes);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

dataset::Attributes circumstances(const std::vector<std::string>& argv, int threads, double seconds) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return {{"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"argv", argv},
          {"cpu", cpu_name()},
          {"threads", threads},
          {"seconds", std::round(seconds * 1e3) / 1e3},
          {"peak_memory", std::int64_t{used.ru_maxrss} * 1024}};  // ru_maxrss is in KiB on Linux
}

nlohmann::ordered_json result_json(const Outcome& outcome) {
  return outcome.data ? dataset::json_of(*outcome.data) : outcome.document;
}

std::string citation(const std::function<std::string(const char*)>& attribute) {
  const std::string result =
      attribute
          ? fmt::format("; a result of its study {} on {}, {}, with the configuration of SHA-256 {}",
                        attribute("study"), attribute("device"), attribute("instructions"), attribute("config_sha256"))
          : "";
  return fmt::format(
      R"(@software{{periscope,
  title = {{Periscope: a laboratory for normalization placement in deep residual stacks}},
  author = {{{{The Periscope authors}}}},
  version = {{{}}},
  note = {{Commit {}{}}}
}}

@inproceedings{{kim2025periln,
  title = {{{{Peri-LN}}: Revisiting Normalization Layer in the Transformer Architecture}},
  author = {{Kim, Jeonghoon and Lee, Byeongchan and Park, Cheonbok and Oh, Yeontaek and Kim, Beomjun and Yoo, Taehwan and
            Shin, Seongjin and Han, Dongyoon and Shin, Jinwoo and Yoo, Kang Min}},
  booktitle = {{Proceedings of the 42nd International Conference on Machine Learning}},
  series = {{Proceedings of Machine Learning Research}},
  volume = {{267}},
  year = {{2025}},
  note = {{arXiv:2502.02732}}
}}
)",
      bibtex(attribute ? attribute("version") : build_info::version),
      bibtex(attribute ? attribute("commit") : build_info::commit), bibtex(result));
}

}  // namespace periscope::study
