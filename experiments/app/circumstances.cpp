#include "experiments/app/circumstances.h"

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cmath>
#include <fstream>

#include "experiments/core/config/json_text.h"

namespace periscope::app {
namespace {

std::vector<std::string>& argv_storage() {
  static std::vector<std::string> argv;
  return argv;
}

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

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

void set_argv(std::vector<std::string> argv) { argv_storage() = std::move(argv); }

dataset::Facts circumstances(int threads, double seconds) {
  return {{"created", utc_now()},
          {"argv", dataset::JsonText{config::json_text(argv_storage())}},
          {"cpu", cpu_name()},
          {"threads", std::int64_t{threads}},
          {"seconds", std::round(seconds * 1e3) / 1e3},
          {"peak_memory", peak_memory()}};
}

}  // namespace periscope::app
