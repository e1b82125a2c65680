#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/settings/theory_parameters.h"
#include "sim/model/parameters.h"
#include "sim/reference/backend.h"
#include "tests/emulated/backend.h"
#include "tests/soundness/inner_signals.h"
#include "tests/soundness/inputs.h"
#include "tests/soundness/search.h"

namespace periscope::soundness {
namespace {

constexpr int changes = 16;  ///< inputs that are tried beside those that were made

/// The certificate that is asked for: what of the specimen it leaves open.
struct Claim {
  RunArithmetic arithmetic;
  int longest;                              ///< tokens
  bool unrounded;                           ///< of the weights before they are rounded to the format
  std::optional<theory::SignalClass> kind;  ///< whose verdict decides whether the scale is small enough
};

theory::Certificate certificate_of(const Specimen& s, const Backend& ops, Knob knob, double factor,
                                   const Claim& claim) {
  const HeldWeights weights(ops, s.model, turned(s, knob, factor, claim.unrounded ? fp64 : claim.arithmetic.stored));
  return theory::certify(s.model, config::TheoryParameters(ops, s.model, weights), s.domain, claim.arithmetic,
                         claim.longest);
}

bool is_finite(const std::map<ParameterId, Numbers>& numbers) {
  return std::ranges::all_of(numbers, [](const auto& entry) {
    return std::ranges::all_of(entry.second.values, [](double v) { return std::isfinite(v); });
  });
}

bool fits(const theory::Certificate& certificate, const theory::SignalBound& b) {
  return b.largest <= certificate.limit(b) && std::isfinite(b.largest);
}

/// Says of every bound whether a run may be held against it: everything that enters the signal fits its format,
/// as far as the order of the bounds says; or the verdict on the signal's class says so.
std::vector<bool> claims_of(const theory::Certificate& certificate) {
  const auto& bounds = certificate.bounds;
  const auto blocks = [&](std::size_t other, std::size_t i) {
    if (other == i || fits(certificate, bounds[other])) return other == i && !fits(certificate, bounds[i]);
    // Bounds of numbers inside ops stand at no particular place in the order of their sublayer.
    const auto inside = [&](std::size_t k) {
      return theory::class_of(bounds[k].signal) == theory::SignalClass::inside;
    };
    return other < i || ((inside(other) || inside(i)) && bounds[other].sublayer == bounds[i].sublayer);
  };
  std::vector<bool> claims(bounds.size(), true);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    for (std::size_t other = 0; other < bounds.size(); ++other) {
      if (blocks(other, i)) claims[i] = false;
    }
    if (theory::verdict(certificate, theory::class_of(bounds[i].signal)).certified) claims[i] = true;
  }
  return claims;
}

/// Turns the knob until the largest bound is just below what its format holds: certified by a hair.
double tuned_factor(const Backend& ops, const Specimen& s, Knob knob, const Claim& claim) {
  constexpr int halvings = 14;
  constexpr double range = 50.0;  // of log2
  const auto is_certified = [&](double exponent) {
    const double factor = std::exp2(exponent);
    if (!is_finite(turned(s, knob, factor, claim.arithmetic.stored))) return false;
    return theory::verdict(certificate_of(s, ops, knob, factor, claim), claim.kind).certified;
  };
  double low = -range;
  double high = range;
  if (!is_certified(low) || is_certified(high)) return 1.0;
  for (int i = 0; i < halvings; ++i) {
    const double middle = 0.5 * (low + high);
    (is_certified(middle) ? low : high) = middle;
  }
  return std::exp2(low);
}

std::string input_text(const Backend& ops, const SpecimenInput& input) {
  if (const auto* ids = std::get_if<std::vector<int>>(&input)) return fmt::format("tokens {}", fmt::join(*ids, ","));
  return fmt::format("{:.17g}", fmt::join(ops.to_host(std::get<Tensor>(input)), ","));
}

/// One run held against the certificate.
class Trial {
 public:
  Trial(const SoundnessConfig& options, const Backend& ops, const HeldWeights& weights,
        const theory::Certificate& certificate, SpecimenResult& result)
      : options_(options),
        ops_(ops),
        weights_(weights),
        certificate_(certificate),
        claims_(claims_of(certificate)),
        result_(result) {
    reached_.fill(0.0);
    if (result.specimen.model.embedding.token_types > 1) {
      auto numbers = result.specimen.numbers;
      std::vector<double>& rows = numbers.at(matrix_id(0, Weight::token_types)).values;
      std::rotate(rows.begin(), rows.begin() + result.specimen.model.width, rows.end());
      other_types_.emplace(ops, result.specimen.model, numbers);
    }
    result.claims = static_cast<std::size_t>(std::ranges::count(claims_, true));
    result.all_certified = theory::verdict(certificate, std::nullopt).certified;
    result.stream_certified = theory::verdict(certificate, theory::SignalClass::stream).certified;
  }

  /// Runs an input and returns the share of its bound that the target signal reached.
  double run(const Emulation& emulation, const SpecimenInput& input, std::size_t target) {
    // The simulator adds the first row of the token types: every other run finds another row there.
    const bool other_type = ++runs_ % 2 == 0 && other_types_;
    const HeldWeights& weights = other_type ? *other_types_ : weights_;
    certify::SignalMaxima seen;
    InnerSignals inner(result_.specimen.model, weights, seen);
    const auto emulated = make_emulated_backend(ops_, emulation, &inner);
    const StackContext c{.ops = *emulated, .model = result_.specimen.model, .weights = weights};
    if (const auto* ids = std::get_if<std::vector<int>>(&input)) {
      seen.add(c, *ids, {.recorders = {&inner}});
    } else {
      seen.add(c, std::get<Tensor>(input), {.recorders = {&inner}});
    }
    ++result_.runs;
    std::optional<Breach> worst;
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      if (claims_[i]) hold(certificate_.bounds[i], seen, worst);
    }
    if (worst) {
      worst->emulation = emulation;
      worst->input = input_text(ops_, input);
      result_.breaches.push_back(*worst);
    }
    const theory::SignalBound& b = certificate_.bounds[target];
    return seen.largest(b.signal, b.sublayer) / b.largest;
  }

  void finish() {
    std::array<double, class_count> bound{};
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      const theory::SignalBound& b = certificate_.bounds[i];
      if (!claims_[i]) continue;
      double& largest = bound[static_cast<std::size_t>(theory::class_of(b.signal))];
      largest = std::max(largest, b.largest);
    }
    for (std::size_t k = 0; k < class_count; ++k) {
      result_.tightness[k] = bound[k] > 0.0 ? reached_[k] / bound[k] : std::numeric_limits<double>::quiet_NaN();
    }
  }

 private:
  void hold(const theory::SignalBound& b, const certify::SignalMaxima& seen, std::optional<Breach>& worst) {
    const std::vector<double>* maxima = seen.find(b.signal, b.sublayer);
    if (maxima == nullptr) return;
    double& reached = reached_[static_cast<std::size_t>(theory::class_of(b.signal))];
    for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) {
      const double value = (*maxima)[static_cast<std::size_t>(k)];
      reached = std::max(reached, value);
      const double limit = options_.scale * b.magnitude[k];
      // Written as a negation, so that a NaN on either side is a violation.
      if (!(value <= limit)) {
        keep(worst, fmt::format("{} of sublayer {}, feature {}", name_of(b.signal), b.sublayer, k), limit, value);
      }
    }
  }

  static void keep(std::optional<Breach>& worst, std::string what, double bound, double reached) {
    Breach b{.what = std::move(what), .bound = bound, .reached = reached, .emulation = {}, .input = {}};
    if (!worst || b.excess() > worst->excess()) worst = std::move(b);
  }

  const SoundnessConfig& options_;
  const Backend& ops_;
  const HeldWeights& weights_;
  const theory::Certificate& certificate_;
  std::vector<bool> claims_;
  std::optional<HeldWeights> other_types_;
  int runs_ = 0;
  SpecimenResult& result_;
  std::array<double, class_count> reached_;
};

Emulation draw_emulation(verify::Draw& draw, const RunArithmetic& arithmetic, int number) {
  // Uses each order of summation in turn.
  const auto order = static_cast<SumOrder>(static_cast<std::size_t>(number) % sum_order_names.size());
  return {.arithmetic = arithmetic,
          .order = order,
          .norm = draw.chance(0.5) ? NormForm::stored_then_gain : NormForm::accumulated,
          .fused = draw.chance(0.3),
          .reciprocal = draw.chance(0.5),
          .stored_scalars = draw.chance(0.5),
          .chains = draw.chance(0.3),
          .seed = static_cast<std::uint64_t>(number)};
}

}  // namespace

SpecimenResult examine(const SoundnessConfig& options, std::uint32_t index) {
  const RunArithmetic arithmetic = options.arithmetics[index % options.arithmetics.size()];
  const NumberFormat& format = arithmetic.stored;
  verify::Draw draw({options.seed, index, Stream::soundness_run});
  const auto ops = make_reference_backend();

  SpecimenResult r;
  r.arithmetic = arithmetic;
  r.specimen = generate_specimen(options.seed, index, format);
  const Claim claim{.arithmetic = arithmetic,
                    .longest = draw.chance(0.5) ? r.specimen.tokens : theory::default_longest,
                    .unrounded = draw.chance(0.5),
                    .kind = draw.chance(0.7) ? std::nullopt : std::optional(theory::SignalClass::stream)};
  r.knob = static_cast<Knob>(draw.integer(0, static_cast<int>(knob_names.size()) - 1));
  r.factor = draw.chance(0.2) ? 1.0 : tuned_factor(*ops, r.specimen, r.knob, claim);
  r.tightness.fill(std::numeric_limits<double>::quiet_NaN());
  auto rounded = turned(r.specimen, r.knob, r.factor, format);
  // Weights that the format cannot hold are for the certificate to notice, if it is told of them unrounded.
  if (!claim.unrounded && !is_finite(rounded)) return r;
  const theory::Certificate certificate = certificate_of(r.specimen, *ops, r.knob, r.factor, claim);
  r.specimen.numbers = std::move(rounded);
  const HeldWeights weights(*ops, r.specimen.model, r.specimen.numbers);
  Trial trial(options, *ops, weights, certificate, r);
  if (r.claims == 0) return r;
  const StackContext exact{.ops = *ops, .model = r.specimen.model, .weights = weights};
  int number = draw.integer(0, 100);
  SpecimenInput best;
  double nearest = -1.0;
  // The signal that changes of the input are to make large.
  const auto target = static_cast<std::size_t>(draw.integer(0, static_cast<int>(certificate.bounds.size()) - 1));
  const auto attempt = [&](const SpecimenInput& input) {
    const double share = trial.run(draw_emulation(draw, arithmetic, number++), input, target);
    if (share <= nearest) return;
    nearest = share;
    best = input;
  };
  for (const SpecimenInput& input : inputs_for(draw, r.specimen, exact, certificate, format)) attempt(input);
  for (int i = 0; i < changes && nearest >= 0.0; ++i) attempt(changed(draw, r.specimen, *ops, best, format));
  for (int i = 0; i < static_cast<int>(sum_order_names.size()) && nearest >= 0.0; ++i) attempt(SpecimenInput(best));
  trial.finish();
  return r;
}

}  // namespace periscope::soundness
