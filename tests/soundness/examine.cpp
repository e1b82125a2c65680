#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "experiments/engine/settings/theory_parameters.h"
#include "sim/model/parameters.h"
#include "sim/reference/backend.h"
#include "tests/emulated/backend.h"
#include "tests/soundness/inner_signals.h"
#include "tests/soundness/search.h"
#include "tests/soundness/specimen.h"

namespace periscope::soundness {
namespace {

/// Options of the certificate.
struct Claim {
  RunArithmetic arithmetic;
  int longest;                              ///< largest number of tokens
  bool unrounded;                           ///< certify weights before rounding to the format
  std::optional<theory::SignalClass> kind;  ///< class to be certified at the tuned scale
};

theory::Certificate certificate_of(const Specimen& s, const Backend& ops, Knob knob, double factor,
                                   const Claim& claim) {
  const ResidentWeights weights =
      weights_of(ops, s.model, turned(s, knob, factor, claim.unrounded ? fp64 : claim.arithmetic.stored));
  return theory::certify(s.model, config::TheoryParameters(ops, s.model, weights), s.domain, claim.arithmetic,
                         claim.longest);
}

bool is_finite(const Parameters& numbers) {
  return std::ranges::all_of(numbers, [](const auto& entry) {
    return std::ranges::all_of(entry.second.values, [](double v) { return std::isfinite(v); });
  });
}

bool fits(const theory::Certificate& certificate, const theory::SignalBound& b) {
  return b.largest <= certificate.limit(b) && std::isfinite(b.largest);
}

/// Returns, for every bound, whether runs can be compared with it. Either all earlier bounds, which may enter the
/// signal, must fit their formats, or the class of the signal must be certified.
std::vector<bool> claims_of(const theory::Certificate& certificate) {
  const auto& bounds = certificate.bounds;
  const auto blocks = [&](std::size_t other, std::size_t i) {
    if (other == i || fits(certificate, bounds[other])) return other == i && !fits(certificate, bounds[i]);
    // Within a sublayer, bounds of numbers inside ops are unordered.
    const auto inside = [&](std::size_t k) {
      return theory::class_of(bounds[k].signal) == theory::SignalClass::inside;
    };
    return other < i || ((inside(other) || inside(i)) && bounds[other].sublayer == bounds[i].sublayer);
  };
  std::vector<bool> claims(bounds.size(), true);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    for (std::size_t other = 0; other < bounds.size(); ++other)
      if (blocks(other, i)) claims[i] = false;
    if (theory::verdict(certificate, theory::class_of(bounds[i].signal)).certified) claims[i] = true;
  }
  return claims;
}

/// Returns the factor of the knob at which the largest bound is just below the limit of its format.
double tuned_factor(const Backend& ops, const Specimen& s, Knob knob, const Claim& claim) {
  constexpr int halvings = 14;
  constexpr double range = 50.0;  // largest |log2(factor)|
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

/// Returns a random emulation. Cycles through the summation orders.
Emulation draw_emulation(verify::Draw& draw, const RunArithmetic& arithmetic, int number) {
  return {.arithmetic = arithmetic,
          .order = static_cast<SumOrder>(static_cast<std::size_t>(number) % sum_order_names.size()),
          .norm_stores_steps = draw.chance(0.5),
          .fused = draw.chance(0.3),
          .reciprocal = draw.chance(0.5),
          .stored_scalars = draw.chance(0.5),
          .chains = draw.chance(0.3),
          .seed = static_cast<std::uint64_t>(number)};
}

std::string text_of(const Emulation& e) {
  return fmt::format("sums {}, stored steps of norms {}, fused {}, reciprocals {}, stored factors {}, chains {}",
                     sum_order_names[static_cast<std::size_t>(e.order)], e.norm_stores_steps, e.fused, e.reciprocal,
                     e.stored_scalars, e.chains);
}

std::string text_of(const Backend& ops, const SpecimenInput& input) {
  if (const auto* ids = std::get_if<std::vector<int>>(&input)) return fmt::format("tokens {}", fmt::join(*ids, ","));
  return fmt::format("{:.17g}", fmt::join(ops.to_host(std::get<Tensor>(input)), ","));
}

class Trial {
 public:
  Trial(const SoundnessConfig& config, const Backend& ops, const Specimen& specimen,
        const theory::Certificate& certificate, std::string name, SpecimenResult& result)
      : config_(config),
        ops_(ops),
        model_(specimen.model),
        weights_(weights_of(ops, model_, specimen.numbers)),
        certificate_(certificate),
        claims_(claims_of(certificate)),
        name_(std::move(name)),
        result_(result) {
    if (model_.embedding.token_types > 1) {
      Parameters numbers = specimen.numbers;
      std::vector<double>& rows = numbers.at(matrix_id(0, Weight::token_types)).values;
      std::rotate(rows.begin(), rows.begin() + model_.width, rows.end());
      other_types_.reset(new ResidentWeights(weights_of(ops, model_, numbers)));
    }
    result.claims = static_cast<std::size_t>(std::ranges::count(claims_, true));
    result.all_certified = theory::verdict(certificate, std::nullopt).certified;
    result.stream_certified = theory::verdict(certificate, theory::SignalClass::stream).certified;
  }

  [[nodiscard]] const WeightSource& weights() const { return weights_; }

  /// Runs an input and returns the ratio of the target signal to its bound.
  double run(const Emulation& emulation, const SpecimenInput& input, std::size_t target) {
    // The simulator adds the first row of the token types; every second run replaces that row by a different one.
    const WeightSource& weights = ++result_.runs % 2 == 0 && other_types_ ? *other_types_ : weights_;
    certify::SignalMaxima seen;
    InnerSignals inner(model_, weights, seen);
    const auto emulated = make_emulated_backend(ops_, emulation, &inner);
    const StackContext c{.ops = *emulated, .model = model_, .weights = weights};
    std::visit([&](const auto& x) { seen.add(c, x, {.recorders = {&inner}}); }, input);
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      if (claims_[i]) compare(certificate_.bounds[i], seen, emulation, input);
    }
    const theory::SignalBound& b = certificate_.bounds[target];
    return seen.largest(b.signal, b.sublayer) / b.largest;
  }

  void finish() {
    std::array<double, class_count> bound{};
    for (std::size_t i = 0; i < claims_.size(); ++i) {
      const theory::SignalBound& b = certificate_.bounds[i];
      double& largest = bound[static_cast<std::size_t>(theory::class_of(b.signal))];
      if (claims_[i]) largest = std::max(largest, b.largest);
    }
    for (std::size_t k = 0; k < class_count; ++k) {
      result_.tightness[k] = bound[k] > 0.0 ? reached_[k] / bound[k] : std::numeric_limits<double>::quiet_NaN();
    }
  }

 private:
  void compare(const theory::SignalBound& b, const certify::SignalMaxima& seen, const Emulation& emulation,
               const SpecimenInput& input) {
    const std::vector<double>* maxima = seen.find(b.signal, b.sublayer);
    if (maxima == nullptr) return;
    double& reached = reached_[static_cast<std::size_t>(theory::class_of(b.signal))];
    for (Eigen::Index k = 0; k < b.magnitude.size(); ++k) {
      const double value = (*maxima)[static_cast<std::size_t>(k)];
      reached = std::max(reached, value);
      const double limit = config_.scale * b.magnitude[k];
      // NaN on either side is a violation.
      if (value <= limit) continue;
      const double excess = limit > 0.0 ? value / limit : theory::infinity;
      if (result_.violated() && !(excess > result_.excess)) continue;
      result_.excess = excess;
      result_.violation =
          fmt::format("{}\n  {} of sublayer {}, feature {}: value {:.9g}, bound {:.9g}\n  {}\n  {}\n", name_,
                      name_of(b.signal), b.sublayer, k, value, limit, text_of(emulation), text_of(ops_, input));
    }
  }

  const SoundnessConfig& config_;
  const Backend& ops_;
  const ModelSpec& model_;
  ResidentWeights weights_;
  const theory::Certificate& certificate_;
  std::vector<bool> claims_;
  std::string name_;
  std::unique_ptr<ResidentWeights> other_types_;
  SpecimenResult& result_;
  std::array<double, class_count> reached_{};
};

}  // namespace

SpecimenResult examine(const SoundnessConfig& config, std::uint32_t index) {
  constexpr int changes = 16;  // number of changed inputs
  const RunArithmetic arithmetic = config.arithmetics[index % config.arithmetics.size()];
  const NumberFormat& format = arithmetic.stored;
  verify::Draw draw({config.seed, index, Stream::soundness_run});
  const auto ops = make_reference_backend();

  SpecimenResult r;
  Specimen specimen = generate_specimen(config.seed, index, format);
  const Claim claim{.arithmetic = arithmetic,
                    .longest = draw.chance(0.5) ? specimen.tokens : theory::default_longest,
                    .unrounded = draw.chance(0.5),
                    .kind = draw.chance(0.7) ? std::nullopt : std::optional(theory::SignalClass::stream)};
  const auto knob = static_cast<Knob>(draw.integer(0, static_cast<int>(knob_names.size()) - 1));
  const double factor = draw.chance(0.2) ? 1.0 : tuned_factor(*ops, specimen, knob, claim);
  r.tightness.fill(std::numeric_limits<double>::quiet_NaN());
  Parameters rounded = turned(specimen, knob, factor, format);
  // Weights beyond the format's range are rejected by the certificate only if it gets unrounded weights.
  if (!claim.unrounded && !is_finite(rounded)) return r;
  const theory::Certificate certificate = certificate_of(specimen, *ops, knob, factor, claim);
  specimen.numbers = std::move(rounded);
  Trial trial(config, *ops, specimen, certificate,
              fmt::format("--seed {} --only {}: {} {}; {}, placement {}; {} x {:.6g}; {}", config.seed, index,
                          arithmetic_names[static_cast<std::size_t>(arithmetic.kind)], format.name, specimen.family,
                          specimen.model.placement.name, knob_names[static_cast<std::size_t>(knob)], factor,
                          fmt::join(specimen.structure, "; ")),
              r);
  if (r.claims == 0) return r;
  const StackContext exact{.ops = *ops, .model = specimen.model, .weights = trial.weights()};
  int number = draw.integer(0, 100);
  SpecimenInput best;
  double nearest = -1.0;
  // Changes of the input are adopted if they increase this signal.
  const auto target = static_cast<std::size_t>(draw.integer(0, static_cast<int>(certificate.bounds.size()) - 1));
  const auto attempt = [&](const SpecimenInput& input) {
    const double share = trial.run(draw_emulation(draw, arithmetic, number++), input, target);
    if (share <= nearest) return;
    nearest = share;
    best = input;
  };
  for (const SpecimenInput& input : inputs_for(draw, specimen, exact, certificate, format)) attempt(input);
  for (int i = 0; i < changes && nearest >= 0.0; ++i) attempt(changed(draw, specimen, *ops, best, format));
  for (std::size_t i = 0; i < sum_order_names.size() && nearest >= 0.0; ++i) attempt(SpecimenInput(best));
  trial.finish();
  return r;
}

}  // namespace periscope::soundness
