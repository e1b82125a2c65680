#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "experiments/app/tools/info.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/checkpoint_writer.h"
#include "sim/checkpoint/recipe.h"

namespace periscope::app {

void require_family(const std::string& name) {
  if (family_named(name) != nullptr) return;
  std::vector<std::string> names;
  for (const Family& known : family_table()) names.emplace_back(known.name);
  throw ConfigError(fmt::format("--family {}: expected one of {}; nearest is {}", shortened(name),
                                fmt::join(names, ", "), nearest(name, names)));
}

void write_random_checkpoint(const config::Config& config, const std::string& name, bool overwrite) {
  require_family(name);
  const Family* family = family_named(name);
  if (config.run.out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  const std::vector<StackSpec> stacks = config.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(fmt::format("model, init, input: expected one value of every key, for one stack, not {} stacks",
                                  stacks.size()));
  }
  StackSpec spec = stacks.front();
  const CheckpointLayout layout = layout_for(*family, spec.model);
  spec.model = layout.model;
  // As large as asked for is what the tables together give.
  spec.input.second_moment = table_second_moment(layout.model, spec.input.second_moment);
  spec.input.kind = InputKind::tokens;
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const DType dtype = config.run.dtype;
  const GeneratedWeights weights(*backend, spec, dtype, config.run.seed);
  write_checkpoint(config.run.out, layout, *backend, weights, written_type(dtype), overwrite);
}

}  // namespace periscope::app
