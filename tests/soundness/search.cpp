#include "tests/soundness/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "sim/base/parallel_for.h"

namespace periscope::soundness {

std::vector<SpecimenResult> run(const SoundnessConfig& config) {
  std::vector<SpecimenResult> results(config.checkpoints);
  parallel_for(config.checkpoints, [&](std::uint32_t i) { results[i] = examine(config, config.first + i); });
  return results;
}

std::string report(const SoundnessConfig& config, const std::vector<SpecimenResult>& results) {
  dataset::TextTable rows(
      {"", "format", ">checkpoints", ">stream ok", ">all ok", ">runs", ">violated", "tightness: median / largest of"});
  std::string violations;
  for (std::size_t a = 0; a < config.arithmetics.size(); ++a) {
    int checkpoints = 0, stream = 0, all = 0, runs = 0, violated = 0;
    std::array<std::vector<double>, class_count> tightness;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if ((config.first + i) % config.arithmetics.size() != a) continue;
      const SpecimenResult& r = results[i];
      ++checkpoints;
      stream += static_cast<int>(r.stream_certified);
      all += static_cast<int>(r.all_certified);
      runs += r.runs;
      violated += static_cast<int>(r.violated());
      if (r.violated()) violations += fmt::format("\n{}", r.violation);
      for (std::size_t c = 0; c < class_count; ++c) {
        if (!std::isnan(r.tightness[c])) tightness[c].push_back(r.tightness[c]);
      }
    }
    std::vector<std::string> classes;
    for (std::size_t c = 0; c < class_count; ++c) {
      std::ranges::sort(tightness[c]);
      const std::size_t count = tightness[c].size();
      classes.push_back(count == 0 ? fmt::format("{} -", theory::signal_class_names[c])
                                   : fmt::format("{} {:.2f}/{:.3f}", theory::signal_class_names[c],
                                                 tightness[c][count / 2], tightness[c].back()));
    }
    const RunArithmetic& of = config.arithmetics[a];
    rows.add({std::string(arithmetic_names[static_cast<std::size_t>(of.kind)]), std::string(of.stored.name),
              fmt::to_string(checkpoints), fmt::to_string(stream), fmt::to_string(all), fmt::to_string(runs),
              fmt::to_string(violated), fmt::format("{}", fmt::join(classes, " "))});
  }
  return rows.text() +
         "stream ok, all ok: the residual stream or every signal is certified; tightness: largest value of a run over "
         "the "
         "largest bound of the class.\n" +
         violations;
}

}  // namespace periscope::soundness
