#include "tests/soundness/specimen.h"

#include <algorithm>
#include <cmath>

#include "experiments/studies/certify/attack.h"
#include "sim/numerics/rounding.h"

namespace periscope::soundness {
namespace {

using Values = std::vector<double>;

std::vector<int> random_ids(verify::Draw& draw, const Specimen& s) {
  std::vector<int> ids(static_cast<std::size_t>(s.tokens));
  for (int& id : ids) id = draw.integer(0, s.model.vocab - 1);
  return ids;
}

/// Returns the largest entry of the domain, rounded to the format.
double largest_entry(const Specimen& s, const NumberFormat& format) {
  const double largest = std::min(s.domain.largest, format.largest);
  const double rounded = Rounding(format)(largest);
  return rounded <= largest ? rounded : largest * (1.0 - 2.0 * format.unit_roundoff());
}

Tensor real_input(const Backend& ops, const Specimen& s, Values values, const NumberFormat& format) {
  const Rounding round(format);
  const double largest = largest_entry(s, format);
  for (double& v : values) v = round(std::clamp(v, -largest, largest));
  return ops.from_host(s.tokens, s.model.width, DType::f64, values);
}

std::vector<Values> real_values(verify::Draw& draw, const Specimen& s, const NumberFormat& format) {
  const int count = s.tokens * s.model.width;
  const double largest = largest_entry(s, format);
  const double ordinary = std::min(1.0, largest);
  const double tiny = std::sqrt(std::ldexp(1.0, format.least_exponent));
  std::vector<Values> all;
  const auto filled = [&](auto value) {
    Values v(static_cast<std::size_t>(count));
    for (double& x : v) x = value();
    all.push_back(std::move(v));
  };
  filled([] { return 0.0; });
  filled([&] { return largest; });
  filled([&] { return ordinary * (1.0 + 1e-3 * draw.normal()); });
  filled([&] { return draw.chance(0.5) ? largest : -largest; });
  filled([&] { return draw.chance(1.0 / s.model.width) ? largest : 0.0; });
  filled([&] { return ordinary * draw.normal(); });
  filled([&] { return tiny * draw.normal(); });
  filled([&] { return format.smallest_subnormal() * draw.integer(-2, 2); });
  return all;
}

/// Returns the bounds of the certificate before the first one that overflows its arithmetic.
theory::Certificate certified_part(const theory::Certificate& certificate) {
  theory::Certificate part = certificate;
  const auto end = std::ranges::find_if(part.bounds, [&](const auto& b) { return !(b.largest <= part.limit(b)); });
  part.bounds.erase(end, part.bounds.end());
  return part;
}

}  // namespace

std::vector<SpecimenInput> inputs_for(verify::Draw& draw, const Specimen& s, const StackContext& exact,
                                      const theory::Certificate& certificate, const NumberFormat& format) {
  constexpr int steps = 6;
  constexpr int random_sequences = 3;
  std::vector<SpecimenInput> inputs;
  if (s.domain.tokens) {
    for (int id = 0; id < s.model.vocab; ++id) {
      inputs.emplace_back(std::vector<int>(static_cast<std::size_t>(s.tokens), id));
    }
    for (int i = 0; i < random_sequences; ++i) inputs.emplace_back(random_ids(draw, s));
  } else {
    for (Values& v : real_values(draw, s, format)) inputs.emplace_back(real_input(exact.ops, s, std::move(v), format));
  }
  const theory::Certificate part = certified_part(certificate);
  certify::SignalMaxima seen;
  for (const certify::SignalPlace& place : certify::attack_places(part)) {
    const certify::AttackOptions options{.steps = steps, .restarts = 1, .tokens = s.tokens, .seed = s.index};
    const certify::AttackResult best = certify::attack(exact, part, place, s.domain, options, seen);
    if (s.domain.tokens) {
      inputs.emplace_back(best.ids);
    } else {
      inputs.emplace_back(real_input(exact.ops, s, exact.ops.to_host(best.input), format));
    }
  }
  return inputs;
}

SpecimenInput changed(verify::Draw& draw, const Specimen& s, const Backend& ops, const SpecimenInput& input,
                      const NumberFormat& format) {
  if (const auto* ids = std::get_if<std::vector<int>>(&input)) {
    std::vector<int> next = *ids;
    next[static_cast<std::size_t>(draw.integer(0, s.tokens - 1))] = draw.integer(0, s.model.vocab - 1);
    return next;
  }
  Values values = ops.to_host(std::get<Tensor>(input));
  for (double& v : values) {
    if (draw.chance(0.3)) v *= draw.of({-1.0, 0.5, 1.1, 2.0});
  }
  return real_input(ops, s, std::move(values), format);
}

}  // namespace periscope::soundness
