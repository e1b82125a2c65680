#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "experiments/engine/cache/cache.h"
#include "experiments/engine/cache/encoding.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/measure/probe.h"
#include "theory/predict/predict.h"

namespace periscope {

// Members of readings and predictions, for serialization (encoding.h).
inline auto parts(Curve& c) { return std::tie(c.value, c.standard_error); }
inline auto parts(Profile& p) { return std::tie(p.curves, p.angular_distance); }
inline auto parts(Reading& r) { return std::tie(r.profile, r.top, r.diverged_at); }

namespace theory {

inline auto parts(Prediction& p) {
  return std::tie(p.profile, p.unsupported, p.finite_width, p.replicates, p.samples, p.backward_samples, p.tolerance,
                  p.gradient_tolerance, p.gradient_unsupported, p.exact_at_width, p.limit, p.spread, p.left_out,
                  p.finite_width_replicates, p.finite_width_degrees, p.replicates_given, p.replicate_profiles,
                  p.replicates_per_sequence);
}

}  // namespace theory

namespace stacks {

/// Returns the cached value of a task; nullopt if it is not cached. Ignores a damaged file and reports it.
template <class T>
std::optional<T> find_cached(Progress& progress, const std::string& task) {
  const cache::Cache* cache = progress.task_cache();
  if (cache == nullptr) return std::nullopt;
  try {
    const std::optional<std::string> bytes = cache->get(task);
    if (!bytes) return std::nullopt;
    std::optional<T> value = cache::decode<T>(*bytes);
    progress.set_resumable(cache->folder());
    return value;
  } catch (const InputError& error) {
    progress.say(
        fmt::format("{}/{}: damaged, will be recomputed: {}\n", printable(cache->folder()), task, error.what()));
    return std::nullopt;
  }
}

/// Caches the value of a task if there is a cache.
template <class T>
void store(Progress& progress, const std::string& task, const T& value) {
  constexpr std::size_t max_bytes = std::size_t{1} << 28U;  // reading more takes about as long as recomputing
  if (progress.task_cache() == nullptr) return;
  const std::string bytes = cache::encode(value);
  if (bytes.size() > max_bytes) return;
  progress.task_cache()->put(task, bytes);
  progress.set_resumable(progress.task_cache()->folder());
}

/// Returns the cached value of the task named `task()`, or computes and caches it. `label` is for progress lines.
template <class Task, class Compute>
auto cached(Progress& progress, const std::string& label, const Task& task, const Compute& compute) {
  using T = std::invoke_result_t<Compute>;
  const std::string name = progress.task_cache() == nullptr ? "" : task();
  progress.throw_if_stop_requested();
  progress.next(label);
  if (std::optional<T> value = find_cached<T>(progress, name)) {
    progress.cached(label);
    return std::move(*value);
  }
  T value = compute();
  store(progress, name, value);
  progress.step(label);
  return value;
}

/// Returns the name of a cached task that marks `folders` as written by this run ("" is ignored). If it is cached, a
/// resumed run may overwrite their files.
inline std::string writing_task(const config::RunOptions& run, const std::vector<std::string>& folders) {
  std::string all = fmt::format("{} {}", run.seed, run.seeds);
  for (const std::string& folder : folders) {
    all += "\n" + (folder.empty() ? "" : std::filesystem::absolute(folder).lexically_normal().string());
  }
  return cache::task_name("writing", all);
}

}  // namespace stacks

}  // namespace periscope
