#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/app/tools/info.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint_writer.h"

namespace periscope::app {

void write_random_checkpoint(const config::Config& config, const std::string& name, bool overwrite) {
  const Family* family = family_named(name);
  if (family == nullptr) {
    std::vector<std::string_view> names;
    for (const Family& known : family_table()) names.push_back(known.name);
    throw ConfigError(fmt::format("--family {}: expected one of {}", name, fmt::join(names, ", ")));
  }
  if (config.run.out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  const std::vector<StackSpec> stacks = config.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(
        fmt::format("model.placement: expected one placement and one kind of input, not {} stacks", stacks.size()));
  }
  StackSpec spec = stacks.front();
  const CheckpointLayout layout = layout_for(*family, spec.model);
  spec.model = layout.model;
  spec.input.kind = InputKind::tokens;
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const DType dtype = config.run.dtype;
  const GeneratedWeights weights(*backend, spec, dtype, config.run.seed);
  write_checkpoint(config.run.out, layout, *backend, weights, written_type(dtype), overwrite);
}

}  // namespace periscope::app
