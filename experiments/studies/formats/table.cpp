#include <fmt/format.h>

#include "experiments/core/dataset/text_table.h"
#include "experiments/core/stacks/verdict_table.h"
#include "experiments/studies/formats/formats.h"

namespace periscope::formats {
namespace {

/// With its standard error, where there are several seeds.
std::string number(const RunningMoments& m, int digits) {
  if (m.count() < 2) return fmt::format("{:.{}f}", m.mean(), digits);
  return fmt::format("{:.{}f} ± {:.{}f}", m.mean(), digits, m.standard_error(), digits);
}

std::string percent(const RunningMoments& m) {
  if (m.count() < 2) return fmt::format("{:+.3g} %", 100.0 * m.mean());
  return fmt::format("{:+.3g} ± {:.1g} %", 100.0 * m.mean(), 100.0 * m.standard_error());
}

std::string overflow_words(const Overflow& overflow, int seeds) {
  if (overflow.seeds == 0) return "-";
  return fmt::format("{} {} ({}/{} seeds)", name_of(overflow.first.signal), overflow.first.sublayer, overflow.seeds,
                     seeds);
}

std::string certificate_words(const std::optional<FormatCertificate>& certificate) {
  if (!certificate) return "";
  return certificate->certified ? "impossible" : fmt::format("{} {}", certificate->signal, certificate->sublayer);
}

}  // namespace

std::string table(const FormatsResult& result, const FormatsConfig& config) {
  dataset::TextTable table({"placement", "format", "law", "against f64", ">drift of E[x²]", ">stream dB", ">predicted",
                            ">branch dB", ">gradient dB", "overflow", "on the way back", "could overflow",
                            ">massive: branch dB lost"});
  const std::size_t tests = massive_tests(result);
  for (const FormatsStack& stack : result.stacks) {
    const std::size_t places = places_of(stack.spec.model);
    const auto top = static_cast<std::size_t>(stack.spec.model.sublayers());
    const std::size_t x_out = stack.position({Pass::forward, Signal::x_out});
    const std::size_t f_out = stack.position({Pass::forward, Signal::f_out});
    const std::size_t gradient = stack.position({Pass::backward, Signal::x_out});
    for (const FormatResult& format : stack.formats) {
      const Variant& v = format.variants.front();
      const bool exact = format.is_f64();
      RunningMoments branches;
      for (std::size_t p = 1; p <= top; ++p) branches.add(v.numbers[stack.index(f_out, Measure::sqnr, p)].mean());
      std::vector<std::string> row{config::placement_label(stack.spec), format.name,
                                   std::string(judge::name_of(format.law.verdict)),
                                   exact ? "" : std::string(judge::name_of(format.drift.verdict))};
      if (!exact) {
        const RunningMoments& effect = format.massive.branch;
        row.insert(
            row.end(),
            {percent(v.second_moment_drift[x_out * places + top]),
             number(v.numbers[stack.index(x_out, Measure::sqnr, top)], 2),
             v.predicted.empty() ? "" : fmt::format("{:.2f}", v.predicted.back().mean()),
             fmt::format("{:.1f}", branches.mean()),
             gradient < stack.sites.size() ? number(v.numbers[stack.index(gradient, Measure::sqnr, 0)], 1) : "",
             overflow_words(v.forward, stack.seeds), overflow_words(v.backward, stack.seeds),
             certificate_words(format.certificate),
             effect.count() == 0 ? ""
                                 : fmt::format("{} {}", number(effect, 1),
                                               massive_words(effect, tests, config.agreement.familywise_error))});
      }
      table.add(std::move(row));
      if (!format.law.reason.empty()) table.add_note("", format.law.reason);
    }
  }
  return table.text() +
         fmt::format(
             "law: do second moment and variance of the stream over depth agree with theory at this width (T12, T25)?\n"
             "against f64: are they those of the same seeds in f64, but for what one rounding of the stream may do?\n"
             "drift: of the stream's mean square behind the last sublayer, from the run in f64, seed by seed.\n"
             "dB: signal-to-quantisation-noise ratio of the stream there (predicted: T27), of the modules' outputs, "
             "mean over\n"
             "    sublayers, and of the gradient of the stack's input. could overflow: the certificate of the first "
             "seed's\n"
             "    weights (T24), nothing where no number is stored without a scale.\n"
             "held in the format: {}; in {}: the rest. sums in {}, rounding {}, scale over {}.\n",
             config.covers.empty() ? "everything, in 8 bits or fewer what matrices read and their weights"
                                   : fmt::format("{}", fmt::join(config.covers, ", ")),
             config.rest, accumulate_names[static_cast<std::size_t>(config.accumulate)],
             rounding_mode_names[static_cast<std::size_t>(config.rounding)],
             scale_over_names[static_cast<std::size_t>(config.scale)]);
}

}  // namespace periscope::formats
