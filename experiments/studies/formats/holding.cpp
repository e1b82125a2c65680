#include "experiments/studies/formats/holding.h"

namespace periscope::formats {

std::optional<Part> part_of(const ModelSpec& model, const Emission& at) {
  const bool back = at.pass == Pass::backward;
  const bool in_stack = at.sublayer >= 0 && at.sublayer < model.sublayers();
  const SublayerRule rule = in_stack ? model.rule(at.sublayer) : SublayerRule{};
  switch (at.signal) {
    case Signal::x_in: return back ? std::optional(Part::stream) : std::nullopt;
    case Signal::embedding:
    case Signal::input:
    case Signal::sum:
    case Signal::x_out:
    case Signal::r_out: return Part::stream;
    case Signal::A_out: return rule.norm_a ? Part::norms : Part::stream;
    case Signal::B_out: return rule.norm_b ? Part::norms : Part::modules;
    case Signal::output: return model.final_norm ? Part::norms : Part::stream;
    case Signal::q_in:
    case Signal::k_in:
    case Signal::v_in:
    case Signal::gate_in:
    case Signal::up_in: return back ? std::optional(Part::modules) : std::nullopt;
    case Signal::scores: return std::nullopt;
    default: return Part::modules;
  }
}

}  // namespace periscope::formats
