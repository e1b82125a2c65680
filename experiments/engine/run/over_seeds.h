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

/// Small stacks run one seed per thread, which saves a barrier per op. A large one runs its seeds in turn, with threads
/// inside its ops, so that one sublayer's weights are in memory. A matrix-free stack (T21) is small if the signals of
/// one seed are, and there is a seed for every thread.
bool one_seed_per_thread(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads);

/// Calls `measure(i)` for i = 0 … seeds − 1, several at a time if the stack is small, and `use` with every result, in
/// the order of the seeds, one at a time. Throws what `measure` or `use` threw for the first failed seed, without
/// beginning another one; Stopped once `progress` is asked to stop.
template <class Measure, class Use>
void over_seeds(const StackSpec& spec, const config::RunOptions& run, int seeds, const Progress& progress,
                const Measure& measure, const Use& use) {
  FirstException failure;  // of the ordered part, so that it is the first seed's
  const bool beside = one_seed_per_thread(spec, run, seeds, omp_get_max_threads());
#pragma omp parallel for ordered schedule(dynamic, 1) if (beside)
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

/// Returns the name of the task that measures `what` of a stack's seeds; it covers all that the values depend on except
/// the seed. Reads the files that the specification names.
std::string seeds_task(std::string_view what, const StackSpec& spec, const config::RunOptions& run);

/// over_seeds for the seeds run.seed, run.seed + 1, …, with cached values (seeds_task) where there are any. Consecutive
/// seeds are cached in groups, each of 0.2 seconds, or of 2 % of the time so far if that is more. Each seed is a task
/// of progress, called `label`.
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
    std::vector<Value> group;  // of `seed` and the seeds after it
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
