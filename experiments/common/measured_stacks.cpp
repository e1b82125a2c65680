#include "experiments/common/measured_stacks.h"

#include <fmt/format.h>

#include "experiments/common/measure_stack.h"
#include "experiments/common/progress.h"
#include "sim/backends.h"

namespace periscope {

MeasuredStacks measure_stacks(const Config& config, const std::string& what, Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  MeasuredStacks measured{.specs = config.stacks(), .measurements = {}, .per_seed = {}, .dtype = config.run.dtype};
  progress.begin(what, static_cast<int>(measured.specs.size()) * config.run.seeds);
  for (const StackSpec& spec : measured.specs) {
    const std::string label = fmt::format("{}, {} input", spec.model.placement.name,
                                          input_kind_names[static_cast<std::size_t>(spec.input.kind)]);
    SeedCurves& curves = measured.per_seed.emplace_back();
    const SeedAverage average =
        measure_stack(*backend, spec, config.run, config.run.seeds, progress, [&](const Reading& reading) {
          curves.add(reading.profile);
          progress.step(label);
        });
    measured.measurements.push_back({.profile = average.profile(),
                                     .top = average.top(),
                                     .seeds = average.seeds(),
                                     .diverged_seeds = average.diverged_seeds(),
                                     .diverged_at = average.diverged_at()});
  }
  return measured;
}

std::vector<Agreement> judge_stacks(const MeasuredStacks& measured,
                                    const std::vector<const theory::Prediction*>& predictions,
                                    const AgreementOptions& options) {
  std::vector<Comparison> comparisons;
  for (std::size_t i = 0; i < measured.specs.size(); ++i) {
    const Measurement& m = measured.measurements[i];
    comparisons.push_back({.spec = measured.specs[i],
                           .measured = m.profile,
                           .seeds = m.seeds,
                           .diverged_seeds = m.diverged_seeds,
                           .dtype = measured.dtype,
                           .prediction = *predictions[i],
                           .per_seed = &measured.per_seed[i]});
  }
  return judge(comparisons, options);
}

}  // namespace periscope
