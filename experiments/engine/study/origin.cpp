#include "experiments/engine/study/origin.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <string_view>
#include <utility>

#include "experiments/engine/result/json.h"
#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/backends.h"

namespace periscope::study {
namespace {

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::int64_t peak_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return std::int64_t{used.ru_maxrss} * 1024;  // Linux counts in KiB
}

/// Text inside braces of BibTeX.
std::string bibtex(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\{}~^").find(c) != std::string_view::npos) continue;
    if (std::string_view("%&#_$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string entries(const std::string& version, const std::string& commit, const std::string& result) {
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
      bibtex(version), bibtex(commit), bibtex(result));
}

}  // namespace

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

void seal(const Study& study, const Job& job, Outcome& outcome) {
  dataset::Facts facts = origin(job, outcome.resolved.value_or(job.resolved));
  facts.emplace_back("study", study.name);
  facts.emplace_back("result", study.schema->kind());
  facts.emplace_back("result_version", std::int64_t{study.schema->version()});
  for (auto& [name, value] : outcome.data->facts) dataset::set(facts, name, std::move(value));
  dataset::set(facts, "exit_code", std::int64_t{static_cast<int>(outcome.code)});
  outcome.data->facts = std::move(facts);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

dataset::Facts circumstances(const std::vector<std::string>& argv, int threads, double seconds) {
  return {{"created", utc_now()},
          {"argv", dataset::JsonText{config::json_text(argv)}},
          {"cpu", cpu_name()},
          {"threads", std::int64_t{threads}},
          {"seconds", std::round(seconds * 1e3) / 1e3},
          {"peak_memory", peak_memory()}};
}

nlohmann::ordered_json whole_json(const Outcome& outcome) {
  return outcome.data ? dataset::json_of(*outcome.data) : outcome.document;
}

std::string citation(const std::function<std::string(const char*)>& attribute) {
  if (!attribute) return entries(build_info::version, build_info::commit, "");
  const std::string result =
      fmt::format("; a result of its study {} on {}, {}, with the configuration of SHA-256 {}", attribute("study"),
                  attribute("device"), attribute("instructions"), attribute("config_sha256"));
  return entries(attribute("version"), attribute("commit"), result);
}

}  // namespace periscope::study
