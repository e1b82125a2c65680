#include "experiments/studies/certify/soundness/soundness.h"

#include <algorithm>
#include <cmath>

#include "experiments/core/stacks/progress.h"
#include "sim/base/first_exception.h"

namespace periscope::soundness {
namespace {

/// What is kept of a checkpoint until the end.
struct Kept {
  std::size_t arithmetic;
  std::int64_t parameters;
  bool stream_certified, all_certified, violated;
  int runs;
  std::array<double, class_count> tightness;
};

Kept kept_of(const SoundnessConfig& options, std::uint32_t index) {
  const SpecimenResult r = examine(options, index);
  return {index % options.arithmetics.size(),
          r.specimen.parameters(),
          r.stream_certified,
          r.all_certified,
          !r.breaches.empty(),
          r.runs,
          r.tightness};
}

Tightness tightness_of(std::vector<std::pair<double, std::uint32_t>> found) {
  Tightness t;
  t.checkpoints = static_cast<int>(found.size());
  if (found.empty()) return t;
  std::ranges::sort(found);
  t.median = found[found.size() / 2].first;
  t.largest = found.back().first;
  t.tightest = found.back().second;
  return t;
}

SoundnessResult summarised(const SoundnessConfig& options, std::uint32_t first, const std::vector<Kept>& all) {
  constexpr std::size_t most_listed = 10;
  SoundnessResult result;
  result.config = options;
  for (std::size_t a = 0; a < options.arithmetics.size(); ++a) {
    ArithmeticSummary s{.arithmetic = options.arithmetics[a]};
    std::array<std::vector<std::pair<double, std::uint32_t>>, class_count> ratios;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Kept& k = all[i];
      if (k.arithmetic != a) continue;
      ++s.checkpoints;
      s.stream_certified += static_cast<int>(k.stream_certified);
      s.all_certified += static_cast<int>(k.all_certified);
      s.violated += static_cast<int>(k.violated);
      s.runs += k.runs;
      for (std::size_t c = 0; c < class_count; ++c) {
        if (!std::isnan(k.tightness[c])) ratios[c].emplace_back(k.tightness[c], first + static_cast<std::uint32_t>(i));
      }
    }
    for (std::size_t c = 0; c < class_count; ++c) s.tightness[c] = tightness_of(std::move(ratios[c]));
    result.checkpoints += s.checkpoints;
    result.violated += s.violated;
    result.runs += s.runs;
    result.summaries.push_back(s);
  }
  std::vector<std::pair<std::int64_t, std::uint32_t>> violators;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].violated) violators.emplace_back(all[i].parameters, first + static_cast<std::uint32_t>(i));
  }
  std::ranges::sort(violators);
  for (std::size_t i = 0; i < std::min(most_listed, violators.size()); ++i) {
    result.violations.push_back(examine(options, violators[i].second));
  }
  return result;
}

SoundnessResult search(const SoundnessConfig& config, std::uint32_t first, std::uint32_t count,
                       stacks::Progress& progress) {
  std::vector<Kept> all(count);
  progress.begin("soundness", static_cast<int>(count));
  FirstException failure;
  constexpr std::uint32_t chunk = 64;
  for (std::uint32_t begin = 0; begin < count && !failure.failed(); begin += chunk) {
    const std::uint32_t end = std::min(begin + chunk, count);
#pragma omp parallel for schedule(dynamic, 1)
    for (std::uint32_t i = begin; i < end; ++i) {
      failure.run([&] {
        progress.throw_if_stop_requested();
        all[i] = kept_of(config, first + i);
      });
    }
    progress.step("checkpoints", static_cast<int>(end - begin));
  }
  SoundnessResult result;
  result.stopped_early = stacks::until_stopped([&] {
    failure.rethrow();
    result = summarised(config, first, all);
  });
  return result;
}

// clang-format off
constexpr Key<SoundnessConfig> keys[] = {
    {.name = "seed", .field = &SoundnessConfig::seed, .meaning = "of the checkpoints and their inputs"},
    {.name = "checkpoints", .field = &SoundnessConfig::checkpoints, .meaning = "how many"},
    {.name = "scale", .field = &SoundnessConfig::scale, .meaning = "on every bound"},
};
// clang-format on

}  // namespace

const Section<SoundnessConfig> section{"soundness", keys};

const Breach& SpecimenResult::worst() const { return *std::ranges::max_element(breaches, {}, &Breach::excess); }

SoundnessResult run(const SoundnessConfig& config, stacks::Progress& progress) {
  return search(config, 0, static_cast<std::uint32_t>(config.checkpoints), progress);
}

SoundnessResult run(const SoundnessConfig& config, std::uint32_t only, stacks::Progress& progress) {
  return search(config, only, 1, progress);
}

}  // namespace periscope::soundness
