#include "experiments/studies/gradients/config.h"

namespace periscope::gradients {
namespace {

// clang-format off
constexpr Key<GradientConfig> keys[] = {
    {.name = "layers", .field = &GradientConfig::layers, .range = from_to(1, 10'000), .meaning = "depths of `gradients depth`"},
    {.name = "qk_factors", .field = &GradientConfig::qk_factors, .meaning = "values of init.qk_factor in `gradients attenuation`"},
    {.name = "down_factors", .field = &GradientConfig::down_factors, .meaning = "values of init.down_factor in `gradients crossover`"},
};
// clang-format on

}  // namespace

const Section<GradientConfig> gradients_section{"gradients", keys};

}  // namespace periscope::gradients
