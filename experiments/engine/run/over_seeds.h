#pragma once

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/settings/config.h"
#include "sim/base/first_exception.h"

namespace periscope::stacks {

/// Returns true if seeds run concurrently, one per thread, which avoids a barrier per op. Seeds of large stacks run one
/// after another, with parallel ops, so that only one sublayer's weights are in memory. A matrix-free stack (T21)
/// counts as small if the signals of one seed are small and there is a seed for every thread.
bool one_seed_per_thread(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads);

/// Calls `measure(i)` for i = 0 … seeds − 1, concurrently if one_seed_per_thread, and `use` for every result, in the
/// order of the seeds and one at a time. After an exception, starts no further seeds and rethrows the exception of the
/// first failed seed. Throws Stopped if `progress` requests a stop.
template <class Measure, class Use>
void over_seeds(const StackSpec& spec, const config::RunOptions& run, int seeds, const Progress& progress,
                const Measure& measure, const Use& use) {
  if (!one_seed_per_thread(spec, run, seeds, omp_get_max_threads())) {
    // A plain loop: in a parallel region of one thread, nested parallel ops would start new threads each time.
    for (int i = 0; i < seeds; ++i) {
      progress.throw_if_stop_requested();
      use(measure(i));
    }
    return;
  }
  FirstException failure;  // set in the ordered section: stores the exception of the first failed seed
#pragma omp parallel for ordered schedule(dynamic, 1)
  for (int i = 0; i < seeds; ++i) {
    std::optional<std::invoke_result_t<Measure, int>> result;
    std::exception_ptr caught;
    try {
      progress.throw_if_stop_requested();
      if (!failure.failed()) result = measure(i);
    } catch (...) {
      caught = std::current_exception();
    }
#pragma omp ordered
    failure.run([&] {
      if (caught) std::rethrow_exception(caught);
      use(*result);
    });
  }
  failure.rethrow();
}

/// Returns the name under which the measurement `what` is cached. It depends on all inputs except seeds.
std::string seeds_task(std::string_view what, const StackSpec& spec, const config::RunOptions& run);

/// Calls over_seeds for the seeds run.seed, run.seed + 1, …, reusing cached values (seeds_task). Consecutive seeds are
/// cached in groups that take 0.2 seconds, or 2 % of the elapsed time if longer. Each seed is a task of progress.
template <class Measure, class Use>
void over_cached_seeds(std::string_view what, const StackSpec& spec, const config::RunOptions& run, int seeds,
                       const std::string& label, Progress& progress, const Measure& measure, const Use& use) {
  using Value = std::invoke_result_t<Measure, std::uint64_t>;
  using Clock = std::chrono::steady_clock;
  const cache::Cache* cache = progress.task_cache();
  const std::string task = cache == nullptr ? "" : seeds_task(what, spec, run);
  auto ranges = cache == nullptr ? std::map<std::uint64_t, std::uint64_t>() : cache->seeds_of(task);
  const auto name = [&](std::uint64_t first, std::uint64_t last) { return fmt::format("{}.{}-{}", task, first, last); };
  progress.next(label);
  const std::uint64_t end = run.seed + static_cast<std::uint64_t>(seeds);
  for (std::uint64_t seed = run.seed; seed < end;) {
    const auto cover =
        std::ranges::find_if(ranges, [&](const auto& range) { return range.first <= seed && seed <= range.second; });
    if (cover != ranges.end()) {
      const auto [first, last] = *cover;
      const auto values = find_cached<std::vector<Value>>(progress, name(first, last));
      if (!values) ranges.erase(cover);
      for (; values && seed < end && seed <= last; ++seed) {
        use(values->at(seed - first));
        progress.cached(label);
      }
      continue;
    }
    const auto after = ranges.upper_bound(seed);
    const std::uint64_t stop = after == ranges.end() ? end : std::min(end, after->first);
    const Clock::time_point start = Clock::now();
    Clock::time_point last = start;
    std::vector<Value> group;  // results of `seed` and the seeds after it
    const auto flush = [&] {
      if (!group.empty()) store(progress, name(seed, seed + group.size() - 1), group);
      seed += group.size();
      group.clear();
      last = Clock::now();
    };
    try {
      over_seeds(
          spec, run, static_cast<int>(stop - seed), progress,
          [&, first = seed](int i) { return measure(first + static_cast<std::uint64_t>(i)); },
          [&](const Value& value) {
            group.push_back(value);
            const Clock::time_point now = Clock::now();
            if (now - last >= std::max<Clock::duration>(std::chrono::milliseconds(200), (now - start) / 50)) flush();
            use(value);
            progress.step(label);
          });
    } catch (...) {
      flush();
      throw;
    }
    flush();
  }
}

}  // namespace periscope::stacks
