#include <fmt/format.h>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/formats/formats.h"

namespace periscope::formats {
namespace {

std::string number(const RunningMoments& m, const char* format) {
  return dataset::with_error(m.mean(), m.standard_error(), format, format);
}

std::string overflow_words(const Overflow& overflow, int seeds) {
  if (overflow.seeds == 0) return "-";
  return fmt::format("{} {} ({}/{} seeds)", name_of(overflow.first.signal), overflow.first.sublayer, overflow.seeds,
                     seeds);
}

std::string certificate_words(const std::optional<FormatCertificate>& c) {
  if (!c) return "";
  return c->certified ? "impossible" : fmt::format("{} {}", name_of(c->first.signal), c->first.sublayer);
}

}  // namespace

std::string table(const std::vector<FormatsStack>& stacks, const FormatsConfig& config) {
  dataset::TextTable verdicts(
      {"placement", "format", "law", "against f64", "overflow", "backward", "could overflow", "massive"});
  dataset::TextTable numbers({"placement", "format", ">drift of E[x²]", ">stream dB", ">predicted", ">branch dB",
                              ">gradient dB", ">massive costs"});
  for (const FormatsStack& stack : stacks) {
    const auto top = static_cast<std::size_t>(stack.spec.model.sublayers());
    for (const FormatResult& format : stack.formats) {
      const Variant& v = format.variants.front();
      const auto gradient = v.numbers.find({Site{Pass::backward, Signal::x_out}, Measure::sqnr});
      RunningMoments branches;
      for (std::size_t p = 1; p <= top; ++p) {
        branches.add(v.numbers.at({Site{Pass::forward, Signal::f_out}, Measure::sqnr})[p].mean());
      }
      const std::string placement = config::placement_label(stack.spec);
      std::vector<std::string> verdict{placement, format.name, std::string(judge::name_of(format.law.verdict))};
      if (!format.is_f64()) {
        verdict.insert(verdict.end(), {std::string(judge::name_of(format.drift.verdict)),
                                       overflow_words(v.forward, stack.seeds), overflow_words(v.backward, stack.seeds),
                                       certificate_words(format.certificate), massive_words(format.massive)});
        const RunningMoments& drift = v.numbers.at({stream_site, Measure::second_moment_drift})[top];
        numbers.add(
            {placement, format.name,
             dataset::with_error(100.0 * drift.mean(), 100.0 * drift.standard_error(), "{:+.3g}", "{:.1g}") + " %",
             number(v.numbers.at({stream_site, Measure::sqnr})[top], "{:.2f}"),
             v.predicted.empty() ? "" : dataset::number(v.predicted.back().mean(), "{:.2f}"),
             dataset::number(branches.mean(), "{:.1f}"),
             gradient == v.numbers.end() ? "" : number(gradient->second.front(), "{:.1f}"),
             format.branch_cost.count() > 0 ? number(format.branch_cost, "{:.1f}") : ""});
      }
      verdicts.add(std::move(verdict));
      if (!format.law.reason.empty()) verdicts.add_note("", format.law.reason);
    }
  }
  return verdicts.text() + "\n" + numbers.text() +
         fmt::format(
             "law: second moment and variance of the stream over depth against theory at this width.\nagainst f64: "
             "both against the same seeds in f64, tolerating one rounding of the stream.\ndrift: relative change of "
             "the stream's mean square after the last sublayer from the same seeds in f64.\ndB: "
             "signal-to-quantisation-noise ratios of the stream after the last sublayer, of modules' outputs (mean "
             "over sublayers), and of the input's gradient; massive costs: dB that massive input features "
             "(formats.massive) take from modules' outputs.\ncould overflow: first signal that may overflow by the "
             "certificate of the first seed's weights; empty if every number has a scale.\nstored in the format: {}; "
             "other tensors in {}. sums: {}; rounding: {}; entries that share a scale: {}.\n",
             config.covers.empty() ? "all tensors (formats of 8 bits or fewer: inputs and weights of matrices)"
                                   : fmt::format("{}", fmt::join(config.covers, ", ")),
             config.rest, accumulate_names[config.accumulates_in_format ? 1 : 0],
             rounding_names[config.stochastic ? 1 : 0], scale_over_names[static_cast<std::size_t>(config.scale)]);
}

}  // namespace periscope::formats
