#include "experiments/engine/judge/finding_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace periscope::judge {

std::string plus_minus(const Estimate& estimate) {
  if (!std::isfinite(estimate.value)) return "-";
  const double error = estimate.error;
  if (!(error > 0.0) || std::isinf(error)) return fmt::format("{:.4g}", estimate.value);
  if (error >= 1e6) return fmt::format("{:.4g} ± {:.2g}", estimate.value, error);
  const int digits = std::clamp(1 + static_cast<int>(std::ceil(-std::log10(error))), 0, 9);
  return fmt::format("{:.{}f} ± {:.{}f}", estimate.value, digits, error, digits);
}

std::string shown(double x, const char* format) { return std::isnan(x) ? "-" : fmt::format(fmt::runtime(format), x); }

std::string verdict_words(const Finding& finding) {
  if (finding.verdict != Verdict::disagrees && !finding.reason.empty()) {
    return fmt::format("{} ({})", name_of(finding.verdict), finding.reason);
  }
  if (finding.verdict != Verdict::disagrees) return std::string(name_of(finding.verdict));
  return fmt::format("disagrees ({:.1f} / {:.1f})", finding.cell().excess(), finding.critical);
}

}  // namespace periscope::judge
