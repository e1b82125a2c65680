#include "experiments/studies/formats/formats.h"

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/theory_parameters.h"
#include "sim/backends.h"
#include "theory/kernels/kernel.h"

namespace periscope::formats {
namespace {

/// True if `a` is reached before `b` in a pass.
bool earlier(const FirstOverflow& a, const FirstOverflow& b, bool backward) {
  const auto order = [](const FirstOverflow& o) { return std::pair(o.sublayer, static_cast<int>(o.signal)); };
  return backward ? order(a) > order(b) : order(a) < order(b);
}

void note(Overflow& overflow, const FirstOverflow& seen, std::uint64_t seed, bool first, bool backward) {
  if (!seen.found) return;
  if (overflow.seeds == 0 || earlier(seen, overflow.first, backward)) {
    overflow.first = seen;
    overflow.seed = seed;
  }
  ++overflow.seeds;
  overflow.of_first_seed = overflow.of_first_seed || first;
}

/// The largest entry that entered a stack, with massive features too.
double largest_input(const FormatsStack& stack) {
  double largest = 0.0;
  for (const Variant& v : stack.formats.front().variants) largest = std::max(largest, v.largest_input);
  return largest;
}

/// True if the certificate of an arithmetic that stores everything in `format` says something about a run that holds
/// its tensors so: something is stored there without a scale, and nothing in a narrower range.
bool certificate_counts(const Holding& holding, const TensorFormat& format) {
  bool stored = false;
  for (const Quantization& q : holding.parts) {
    stored = stored || (q.format.name == format.name && q.scale == ScaleOver::nothing);
    if (q.stochastic || q.format.is_integer() || q.format.floating.largest < format.floating.largest) return false;
  }
  return stored;
}

void certify_formats(const FormatsConfig& config, const std::vector<TensorFormat>& formats, const Backend& ops,
                     FormatsStack& stack, const stacks::Progress& progress) {
  const StackSpec& spec = stack.spec;
  const GeneratedWeights weights(ops, spec, DType::f64, config.run.seed);
  const config::TheoryParameters parameters(ops, spec.model, weights);
  const theory::InputDomain domain{.tokens = spec.input.kind != InputKind::gaussian,
                                   .largest = spec.model.embedding_norm ? theory::infinity : largest_input(stack)};
  const Arithmetic kind = config.accumulate == Accumulate::format ? Arithmetic::pure : Arithmetic::mixed;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    if (!certificate_counts(holding_for(config, formats[f], 0), formats[f])) continue;
    progress.throw_if_stop_requested();
    const theory::Certificate certificate =
        theory::certify(spec.model, parameters, domain, run_arithmetic(kind, formats[f].floating), spec.input.tokens);
    const theory::Verdict verdict = theory::verdict(certificate, std::nullopt);
    FormatCertificate& found = stack.formats[f + 1].certificate.emplace();
    found.certified = verdict.certified;
    if (verdict.certified) continue;
    found.signal = name_of(verdict.first->signal);
    found.sublayer = verdict.first->sublayer;
    found.bound = verdict.first->largest;
  }
}

/// The most that one rounding of the stream does to its mean square, relative: every entry moves by at most u of
/// itself, or of whole numbers by half a step, which is 2/Q of the rms where the largest entry is four times that;
/// twice as far where rounding is stochastic.
double one_rounding(const Quantization& q) {
  const double nearest = q.format.is_integer() ? 2.0 / q.format.largest_integer : q.format.floating.unit_roundoff();
  const double u = q.stochastic ? 2.0 * nearest : nearest;
  return 2.0 * u + u * u;
}

FormatsStack empty_stack(const FormatsConfig& config, const std::vector<TensorFormat>& formats,
                         const stacks::StackResult& predicted) {
  FormatsStack stack{.spec = predicted.spec,
                     .sites = compared_sites(predicted.spec.model, config.run.backward),
                     .prediction = predicted.prediction,
                     .formats = {},
                     .seeds = 0};
  const std::size_t places = places_of(stack.spec.model);
  const std::size_t curves = stack.sites.size() * places;
  const auto moments = [](std::size_t count) { return std::vector<RunningMoments>(count); };
  for (std::size_t f = 0; f <= formats.size(); ++f) {
    FormatResult& result = stack.formats.emplace_back();
    result.name = f == 0 ? fp64.name : formats[f - 1].name;
    if (f > 0) result.stream_rounding = one_rounding(holding_for(config, formats[f - 1], 0).of(Part::stream));
    const Variant empty{.numbers = moments(curves * measure_names.size()),
                        .second_moment_drift = moments(curves),
                        .variance_drift = moments(curves),
                        .rounding = moments(f == 0 ? 0 : part_names.size() * places),
                        .predicted = {},
                        .forward = {},
                        .backward = {}};
    result.variants.assign(variants_of(config), empty);
  }
  return stack;
}

}  // namespace

std::size_t FormatsStack::position(const Site& site) const {
  return static_cast<std::size_t>(std::ranges::find(sites, site) - sites.begin());
}

Profile FormatsStack::law_profile(const FormatResult& format) const {
  const std::size_t x_out = position({Pass::forward, Signal::x_out});
  const auto curve = [&](Measure measure) {
    Curve c;
    for (std::size_t depth = 0; depth <= static_cast<std::size_t>(spec.model.sublayers()); ++depth) {
      const RunningMoments& m = format.variants.front().numbers[index(x_out, measure, depth)];
      c.value.push_back(m.mean());
      c.standard_error.push_back(m.standard_error());
    }
    return c;
  };
  Profile profile;
  profile.curves[{Statistic::second_moment, Signal::x_out}] = curve(Measure::second_moment);
  profile.curves[{Statistic::variance, Signal::x_out}] = curve(Measure::variance);
  return profile;
}

std::vector<double> FormatsStack::predicted_maxima() const {
  const Curve* q = prediction.profile.find(Statistic::second_moment, Signal::x_out);
  std::vector<double> maxima;
  if (q == nullptr) return maxima;
  // |x| of n symmetric entries is as large as the largest of 2n.
  const double entries = 2.0 * spec.input.tokens * spec.model.width;
  for (const double second_moment : q->value) {
    maxima.push_back(theory::typical_maximum(entries, std::sqrt(second_moment)));
  }
  return maxima;
}

double FormatsStack::predicted_maximum() const {
  double largest = 0.0;
  for (const double x : predicted_maxima()) largest = std::max(largest, x);
  if (const Curve* sum = prediction.profile.find(Statistic::maximum, Signal::sum)) {
    for (const double x : sum->value) largest = std::max(largest, std::isnan(x) ? 0.0 : x);
  }
  return largest;
}

void add(FormatsStack& stack, const SeedReading& reading, std::uint64_t seed, bool first) {
  const std::size_t places = places_of(stack.spec.model);
  const std::size_t x_out = stack.position({Pass::forward, Signal::x_out});
  const std::size_t f_out = stack.position({Pass::forward, Signal::f_out});
  const auto depths = static_cast<std::size_t>(stack.spec.model.sublayers());
  for (std::size_t v = 0; v < reading.passes.size(); ++v) {
    const std::vector<double>& truth = reading.passes[v].front().numbers;
    for (std::size_t f = 0; f < stack.formats.size(); ++f) {
      const PassReading& pass = reading.passes[v][f];
      Variant& variant = stack.formats[f].variants[v];
      for (std::size_t i = 0; i < pass.numbers.size(); ++i) variant.numbers[i].add(pass.numbers[i]);
      for (std::size_t s = 0; s < stack.sites.size(); ++s) {
        for (std::size_t p = 0; p < places; ++p) {
          const auto drift = [&](Measure measure) {
            return pass.numbers[stack.index(s, measure, p)] / truth[stack.index(s, measure, p)] - 1.0;
          };
          variant.second_moment_drift[s * places + p].add(drift(Measure::second_moment));
          variant.variance_drift[s * places + p].add(drift(Measure::variance));
        }
      }
      for (std::size_t i = 0; i < pass.rounding.size(); ++i) variant.rounding[i].add(pass.rounding[i]);
      variant.predicted.resize(pass.predicted.size());
      for (std::size_t i = 0; i < pass.predicted.size(); ++i) variant.predicted[i].add(pass.predicted[i]);
      variant.largest_input = std::max(variant.largest_input, pass.numbers[stack.index(x_out, Measure::maximum, 0)]);
      note(variant.forward, pass.forward, seed, first, false);
      note(variant.backward, pass.backward, seed, first, true);
    }
  }
  for (std::size_t f = 0; f < stack.formats.size(); ++f) {
    FormatResult& format = stack.formats[f];
    const std::vector<double>& plain = reading.passes.front()[f].numbers;
    Profile profile;
    for (const auto& [statistic, measure] : {std::pair(Statistic::second_moment, Measure::second_moment),
                                             std::pair(Statistic::variance, Measure::variance)}) {
      const auto begin = plain.begin() + static_cast<std::ptrdiff_t>(stack.index(x_out, measure, 0));
      profile.curves[{statistic, Signal::x_out}].value.assign(begin, begin + static_cast<std::ptrdiff_t>(depths) + 1);
    }
    format.law_curves.add(profile);
    if (reading.passes.size() < 2 || f == 0) continue;
    const std::vector<double>& massive = reading.passes[1][f].numbers;
    const auto loss = [&](std::size_t site, std::size_t place) {
      const std::size_t i = stack.index(site, Measure::sqnr, place);
      return plain[i] - massive[i];
    };
    double branches = 0.0;
    for (std::size_t l = 0; l < depths; ++l) branches += loss(f_out, l + 1);
    format.massive.branch.add(branches / static_cast<double>(depths));
    format.massive.stream.add(loss(x_out, depths));
  }
  ++stack.seeds;
}

FormatsResult run(const FormatsConfig& config, stacks::Progress& progress) {
  const std::vector<TensorFormat> formats = checked_formats(config);
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  FormatsResult result;
  result.stopped_early = stacks::until_stopped([&] {
    auto forward = static_cast<const config::Config&>(config);  // the law is one of the forward pass
    forward.run.backward = false;
    forward.run.paired = true;
    forward.theory.finite_width = true;  // what it is held against is no allowance wide
    progress.begin("formats", stacks::tasks_of_stacks(forward, true, true));
    const std::vector<stacks::StackResult> predicted = stacks::predict_stacks(forward, true, progress);
    for (const stacks::StackResult& prediction : predicted) {
      FormatsStack stack = empty_stack(config, formats, prediction);
      const StackSpec& spec = stack.spec;
      stacks::over_cached_seeds(
          "formats", spec, config.run, config.run.seeds, config::short_label(spec), progress,
          [&](std::uint64_t seed) { return read_seed(config, formats, *ops, spec, seed); },
          [&](const SeedReading& reading) {
            const auto seed = config.run.seed + static_cast<std::uint64_t>(stack.seeds);
            add(stack, reading, seed, stack.seeds == 0);
          });
      if (config.certificates) certify_formats(config, formats, *ops, stack, progress);
      result.stacks.push_back(std::move(stack));
    }
  });
  if (!result.stopped_early) judge_laws(result, config.agreement);
  return result;
}

}  // namespace periscope::formats
