#include "experiments/studies/studies.h"

#include <algorithm>
#include <vector>

#include "experiments/engine/settings/config.h"

namespace periscope {

std::vector<study::Study> all_studies();  // defined in the generated all_studies.cpp

std::span<const study::Study> studies() {
  static const std::vector<study::Study> all = all_studies();
  return all;
}

std::span<const config::AnySection> sections() {
  static const std::vector<config::AnySection> all = [] {
    std::vector<config::AnySection> known{config::any_section(model_section),
                                          config::any_section(init_section),
                                          config::any_section(input_section),
                                          config::any_section(config::run_section),
                                          config::any_section(config::theory_section),
                                          config::any_section(config::agreement_section),
                                          config::any_section(config::power_limit_section)};
    for (const study::Study& one : studies()) {
      for (const config::AnySection& section : one.sections) {
        if (std::ranges::find(known, section.name, &config::AnySection::name) == known.end()) known.push_back(section);
      }
    }
    return known;
  }();
  return all;
}

}  // namespace periscope
