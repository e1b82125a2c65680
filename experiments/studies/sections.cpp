#include "experiments/studies/sections.h"

#include "experiments/core/config/config.h"
#include "experiments/core/stacks/ladder.h"
#include "experiments/studies/formats/config.h"
#include "experiments/studies/gradients/config.h"
#include "experiments/studies/widths/converge.h"
#include "sim/train/train_spec.h"

namespace periscope {

std::span<const AnySection> sections() {
  static const std::vector<AnySection> all{any_section(model_section),
                                           any_section(init_section),
                                           any_section(input_section),
                                           any_section(run_section),
                                           any_section(theory_section),
                                           any_section(agreement_section),
                                           any_section(power_limit_section),
                                           any_section(converge::section),
                                           any_section(ladder::section),
                                           any_section(formats::section),
                                           any_section(gradients::gradients_section),
                                           any_section(train_section)};
  return all;
}

}  // namespace periscope
