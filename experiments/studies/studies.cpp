#include "experiments/studies/studies.h"

#include <algorithm>
#include <vector>

#include "experiments/core/config/config.h"

namespace periscope {

std::vector<study::Study> all_studies();  // of the generated file

std::span<const study::Study> studies() {
  static const std::vector<study::Study> all = all_studies();
  return all;
}

std::span<const AnySection> sections() {
  static const std::vector<AnySection> all = [] {
    std::vector<AnySection> known{any_section(model_section),      any_section(init_section),
                                  any_section(input_section),      any_section(run_section),
                                  any_section(theory_section),     any_section(agreement_section),
                                  any_section(power_limit_section)};
    for (const study::Study& one : studies()) {
      for (const AnySection& section : one.sections) {
        if (std::ranges::find(known, section.name, &AnySection::name) == known.end()) known.push_back(section);
      }
    }
    return known;
  }();
  return all;
}

}  // namespace periscope
