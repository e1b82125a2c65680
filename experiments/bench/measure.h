#pragma once

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace periscope::bench {

/// Returns the wall-clock seconds of one call of f.
template <class F>
double seconds_of(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns the wall-clock seconds of each of `repeats` calls of f.
template <class F>
std::vector<double> seconds_of_each(int repeats, const F& f) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) seconds.push_back(seconds_of(f));
  return seconds;
}

/// Returns this process's peak resident memory in bytes. getrusage would include the memory of the parent process.
inline double peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    double kib = 0.0;
    if (word == "VmHWM:" && status >> kib) return 1024.0 * kib;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace periscope::bench
