#pragma once

#include <variant>
#include <vector>

#include "sim/model/context.h"
#include "tests/soundness/specimen.h"

namespace periscope::soundness {

/// Token ids, or real vectors [N, D].
using SpecimenInput = std::variant<std::vector<int>, Tensor>;

/// Makes the inputs of a specimen: every token alone, random sequences; real vectors that are zero, constant, constant
/// but for a little, one huge entry, corners of the domain, tiny ones whose squares vanish, normal ones. And what an
/// attack in f64 found to come nearest to the largest bounds of `certificate`.
std::vector<SpecimenInput> inputs_for(verify::Draw& draw, const Specimen& specimen, const StackContext& exact,
                                      const theory::Certificate& certificate, const NumberFormat& format);

/// Returns the input with one token changed, or a few entries.
SpecimenInput changed(verify::Draw& draw, const Specimen& specimen, const Backend& ops, const SpecimenInput& input,
                      const NumberFormat& format);

}  // namespace periscope::soundness
