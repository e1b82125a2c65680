#include "tests/soundness/search.h"

#include <algorithm>
#include <cmath>

#include "sim/base/first_exception.h"

namespace periscope::soundness {
namespace {

/// The part of a checkpoint's result that the summary needs.
struct Brief {
  std::size_t arithmetic;
  std::int64_t parameters;
  bool stream_certified, all_certified, violated;
  int runs;
  std::array<double, class_count> tightness;
};

Brief brief_of(const SoundnessConfig& options, std::uint32_t index) {
  const SpecimenResult r = examine(options, index);
  return {index % options.arithmetics.size(),
          r.specimen.parameters(),
          r.stream_certified,
          r.all_certified,
          !r.breaches.empty(),
          r.runs,
          r.tightness};
}

Tightness tightness_of(std::vector<double> found) {
  Tightness t;
  t.checkpoints = static_cast<int>(found.size());
  if (found.empty()) return t;
  std::ranges::sort(found);
  t.median = found[found.size() / 2];
  t.largest = found.back();
  return t;
}

SoundnessResult summarised(const SoundnessConfig& options, const std::vector<Brief>& all) {
  constexpr std::size_t most_listed = 10;
  SoundnessResult result;
  result.config = options;
  for (std::size_t a = 0; a < options.arithmetics.size(); ++a) {
    ArithmeticSummary s{.arithmetic = options.arithmetics[a]};
    std::array<std::vector<double>, class_count> ratios;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Brief& k = all[i];
      if (k.arithmetic != a) continue;
      ++s.checkpoints;
      s.stream_certified += static_cast<int>(k.stream_certified);
      s.all_certified += static_cast<int>(k.all_certified);
      s.violated += static_cast<int>(k.violated);
      s.runs += k.runs;
      for (std::size_t c = 0; c < class_count; ++c) {
        if (!std::isnan(k.tightness[c])) ratios[c].push_back(k.tightness[c]);
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
    if (all[i].violated) violators.emplace_back(all[i].parameters, options.first + static_cast<std::uint32_t>(i));
  }
  std::ranges::sort(violators);
  for (std::size_t i = 0; i < std::min(most_listed, violators.size()); ++i) {
    result.violations.push_back(examine(options, violators[i].second));
  }
  return result;
}

}  // namespace

const Breach& SpecimenResult::worst() const { return *std::ranges::max_element(breaches, {}, &Breach::excess); }

SoundnessResult run(const SoundnessConfig& config, const std::function<void(std::uint32_t)>& finished) {
  std::vector<Brief> all(config.checkpoints);
  FirstException failure;
  constexpr std::uint32_t chunk = 64;
  for (std::uint32_t begin = 0; begin < config.checkpoints && !failure.failed(); begin += chunk) {
    const std::uint32_t end = std::min(begin + chunk, config.checkpoints);
#pragma omp parallel for schedule(dynamic, 1)
    for (std::uint32_t i = begin; i < end; ++i) {
      failure.run([&] { all[i] = brief_of(config, config.first + i); });
    }
    if (finished) finished(end);
  }
  failure.rethrow();
  return summarised(config, all);
}

}  // namespace periscope::soundness
