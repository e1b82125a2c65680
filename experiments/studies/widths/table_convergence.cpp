#include <fmt/format.h>

#include <cmath>

#include "experiments/engine/result/text_table.h"
#include "experiments/studies/widths/convergence.h"

namespace periscope::ladder {
namespace {

std::string exponent(const judge::PowerLaw& fit, bool fitted) {
  if (!fitted) return "-";
  const bool bounded = std::isfinite(fit.exponent_error);
  return fmt::format("{:.2f} ± {}", fit.exponent, bounded ? fmt::format("{:.2f}", fit.exponent_error) : "anything");
}

}  // namespace

std::string table(const ConvergenceResult& result) {
  dataset::TextTable table(
      {"placement", "statistic", ">bias over width: -1", "verdict", ">noise: -1/2", "verdict", ""});
  for (const Convergence& c : result.fits) {
    table.add({config::placement_label(c.spec), std::string(name_of(c.statistic)),
               exponent(c.bias_fit, c.bias_reason.empty()), std::string(judge::name_of(c.bias_verdict)),
               exponent(c.noise_fit, c.noise_verdict != judge::Verdict::not_checked),
               std::string(judge::name_of(c.noise_verdict)),
               c.bias_reason.empty() || c.remedy.empty() ? c.bias_reason + c.remedy : c.bias_reason + "; " + c.remedy});
  }
  return table.text() +
         fmt::format(
             "exponents of power laws fitted to measured − theory of infinite width over width, mean over depth, and "
             "to the spread of means over the number of seeds; limit {:.1f} standard errors. inconclusive: 0, or -2 "
             "and -1, "
             "would agree too.\n",
             result.critical);
}

}  // namespace periscope::ladder
