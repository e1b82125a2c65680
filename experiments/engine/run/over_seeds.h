#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "experiments/engine/run/cell_journal.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/config.h"

namespace periscope::stacks {

/// Small stacks run one seed per thread: that keeps all threads busy without a barrier per op. A large one
/// runs its seeds in turn, with threads inside its ops, so that one sublayer's weights are in memory. Without matrices
/// (T21) a stack is small if the signals of one seed are, and there is a seed for every thread.
bool one_seed_per_thread(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads);

/// Calls `measure(i)` for i = 0 … seeds − 1, several at a time if the stack is small, and `use` with every result, in
/// the order of the seeds, one at a time. Ops do not depend on the number of threads, so both ways give the same
/// bits. Throws what the first of the failed seeds threw, or `use` of it, without beginning another seed; Stopped once
/// `progress` is asked to stop.
template <class Measure, class Use>
void over_seeds(const StackSpec& spec, const config::RunOptions& run, int seeds, const Progress& progress,
                const Measure& measure, const Use& use) {
  std::exception_ptr failure;
  std::atomic<bool> failed = false;  // with the first failure, which the ordered part has seen
  const bool beside = one_seed_per_thread(spec, run, seeds, omp_get_max_threads());
#pragma omp parallel for ordered schedule(dynamic, 1) if (beside)
  for (int i = 0; i < seeds; ++i) {
    std::optional<std::invoke_result_t<Measure, int>> result;
    std::exception_ptr caught;
    try {
      progress.throw_if_stop_requested();
      if (!failed) result = measure(i);
    } catch (...) {
      caught = std::current_exception();
    }
#pragma omp ordered
    {
      if (!failure) failure = caught;
      try {
        if (!failure) use(*result);
      } catch (...) {
        failure = std::current_exception();
      }
      if (failure) failed = true;
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Returns the beginning of the keys under which a journal has the results `what` of a stack's seeds: all that they
/// depend on except the seed. Reads the files that the specification names.
std::string seeds_key(std::string_view what, const StackSpec& spec, const config::RunOptions& run);

/// over_seeds for the seeds run.seed, run.seed + 1, … with results that are kept: what progress.journal() has of `what`
/// is not measured again. `json_of` and `from_cell` write and read a result to its last bit; `from_cell` gets a
/// JournalPart, and throws InputError for one that is no such result.
template <class Measure, class JsonOf, class FromCell, class Use>
void over_kept_seeds(std::string_view what, const StackSpec& spec, const config::RunOptions& run, int seeds,
                     const Progress& progress, const Measure& measure, const JsonOf& json_of, const FromCell& from_cell,
                     const Use& use) {
  CellJournal* journal = progress.journal();
  const std::string key = journal == nullptr ? "" : seeds_key(what, spec, run);
  const auto seed_of = [&](int i) { return run.seed + static_cast<std::uint64_t>(i); };
  const auto key_of = [&](int i) { return key + " seed " + std::to_string(seed_of(i)); };
  const auto kept = [&](int i) -> std::optional<JournalPart> {
    return journal == nullptr ? std::nullopt : journal->find(key_of(i));
  };
  int next = 0;
  over_seeds(
      spec, run, seeds, progress,
      [&](int i) {
        const std::optional<JournalPart> cell = kept(i);
        return cell ? from_cell(*cell) : measure(seed_of(i));
      },
      [&](const auto& result) {
        if (journal != nullptr && !kept(next)) journal->keep(key_of(next), json_of(result));
        ++next;
        use(result);
      });
}

}  // namespace periscope::stacks
