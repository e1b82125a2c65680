#include "experiments/core/stacks/verdict_table.h"

#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/core/dataset/text_table.h"
#include "experiments/core/judge/imprecise.h"

namespace periscope::stacks {
namespace {

std::string top_value(const Profile& profile) {
  const Curve* q = profile.find(Statistic::second_moment, Signal::x_out);
  if (q == nullptr) return "-";
  if (!std::isfinite(q->value.back())) return judge::number_words(q->value.back());
  // One seed has no standard error, and that of numbers whose squares overflow is none.
  if (q->standard_error.empty() || !std::isfinite(q->standard_error.back()))
    return fmt::format("{:.4g}", q->value.back());
  return fmt::format("{:.4g} ± {:.1g}", q->value.back(), q->standard_error.back());
}

std::string measured_value(const Measurement& m) {
  return m.diverged_seeds > 0 ? fmt::format("diverged at sublayer {}", m.diverged_at) : top_value(m.profile);
}

std::string worst_cell(const judge::Agreement& a) {
  if (a.worst < 0) return "-";
  const judge::Cell& cell = a.worst_cell();
  return fmt::format("{:.1f} / {:.1f}  {}", cell.excess(), a.critical, cell.name());
}

/// T22: the worst and the median cell.
std::string power_words(const judge::Agreement& a) {
  if (a.worst < 0) return "-";
  return fmt::format("{:.2g} / {:.2g}", a.power.worst, a.power.median);
}

std::string verdict_words(const judge::Agreement& a, bool colour) {
  const std::string words = a.reason.empty() ? std::string(judge::name_of(a.verdict))
                                             : fmt::format("{}: {}", judge::name_of(a.verdict), a.reason);
  if (!colour) return words;
  const auto shade = a.verdict == judge::Verdict::agrees      ? fmt::terminal_color::green
                     : a.verdict == judge::Verdict::disagrees ? fmt::terminal_color::red
                                                              : fmt::terminal_color::yellow;
  return fmt::format(fmt::fg(shade), "{}", words);
}

/// A line for every stack whose predicted gradients miss their precision: no verdict may rest on them.
std::string imprecise_lines(const std::vector<StackResult>& results) {
  constexpr std::size_t shown = 4;
  std::string lines;
  for (const StackResult& r : results) {
    const std::vector<std::string> names = judge::imprecise_names(r.prediction);
    if (names.empty()) continue;
    lines += fmt::format(
        "less precise than wanted (theory.gradient_tolerance = {:g}): {}, {}: {}{}\n", r.prediction.gradient_tolerance,
        r.spec.model.placement.name, input_kind_names[static_cast<std::size_t>(r.spec.input.kind)],
        fmt::join(names.begin(), names.begin() + static_cast<long>(std::min(names.size(), shown)), "; "),
        names.size() > shown ? fmt::format("; and {} more", names.size() - shown) : "");
  }
  return lines;
}

}  // namespace

std::string verdict_table(const std::vector<StackResult>& results, const config::AgreementOptions& options,
                          bool colour) {
  const bool measured = results.front().measurement.has_value();
  dataset::TextTable rows(measured ? std::vector<std::string>{"placement", "input", "E[x²] predicted", "E[x²] measured",
                                                              "worst cell: excess / limit", "could be off", "verdict"}
                                   : std::vector<std::string>{"placement", "input", "E[x²] predicted", ""});
  std::size_t cells = 0;
  for (const StackResult& r : results) {
    const std::string input(input_kind_names[static_cast<std::size_t>(r.spec.input.kind)]);
    const std::string predicted = r.prediction.refusal.empty() ? top_value(r.prediction.profile) : "refused";
    const std::string placement(r.spec.model.placement.name);
    if (measured) {
      rows.add({placement, input, predicted, measured_value(*r.measurement), worst_cell(r.agreement),
                power_words(r.agreement), verdict_words(r.agreement, colour)});
    } else {
      const bool without = r.prediction.refusal.empty() && !r.prediction.gradient_refusal.empty();
      rows.add({placement, input, predicted,
                without ? "gradients are not predicted: " + r.prediction.gradient_refusal : r.prediction.refusal});
    }
    cells += r.agreement.cells.size();
  }
  const int depths = results.front().spec.model.sublayers();
  std::string table = rows.text();
  table += fmt::format("E[x²]: second moment of the stream after {} sublayers, ± standard error.\n", depths);
  table += imprecise_lines(results);
  if (!measured) return table;
  const bool at_width = std::ranges::any_of(results, [](const StackResult& r) { return r.prediction.exact_at_width; });
  const std::string forward = at_width ? "rounding alone for signals (T25)"
                                       : fmt::format("{:g}·w of a moment and {:g}·w of a cosine", options.finite_width,
                                                     options.finite_width_cosine);
  table += fmt::format(
      "excess: standard errors by which |measured − predicted| exceeds what is allowed: {}, {:g}·w and more of a "
      "gradient\n        (w = depth/width; see theory/README.md); limit: Student's t at a familywise error of {:g} "
      "over {} cells and contrasts.\n",
      forward, options.finite_width_gradient, options.familywise_error, cells);
  table +=
      "could be off: error that the test would have rejected with 95 % probability, worst / median cell (T22), "
      "relative "
      "for moments,\n              absolute for cosines and logarithms; above a statistic's limit (periscope list) the "
      "verdict is inconclusive.\n";
  return table;
}

}  // namespace periscope::stacks
