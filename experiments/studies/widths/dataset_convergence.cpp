#include "experiments/engine/result/table.h"
#include "experiments/studies/widths/convergence.h"

namespace periscope::ladder {
namespace {

const std::string on_fit = "convergence";

/// A fitted power law, and whether it tells anything: figures are drawn of no other.
struct Law {
  const judge::PowerLaw& fit;
  judge::Verdict verdict;
  bool fitted;
};

std::optional<double> if_fitted(const Law& law, double judge::PowerLaw::*value) {
  return law.fitted ? std::optional(law.fit.*value) : std::nullopt;
}

/// `exponent`: what the verdict holds it against.
dataset::Table<Law> law_table(const std::string& name, const std::string& over, const std::string& exponent) {
  dataset::Table<Law> table;
  table
      .column({name + "_exponent", on_fit, "1", "exponent of " + over},
              [](const Law& law) { return if_fitted(law, &judge::PowerLaw::exponent); })
      .column({name + "_exponent_stderr", on_fit, "1", "its standard error"},
              [](const Law& law) { return if_fitted(law, &judge::PowerLaw::exponent_error); })
      .column({name + "_amplitude", on_fit, "1", name + " = amplitude * that number ^ exponent"},
              [](const Law& law) { return if_fitted(law, &judge::PowerLaw::amplitude); })
      .column({name + "_chi_squared", on_fit, "1", "chi squared of the fit"},
              [](const Law& law) { return if_fitted(law, &judge::PowerLaw::chi_squared); })
      .column({name + "_significance", on_fit, "1", "standard errors between it and nothing"},
              [](const Law& law) { return if_fitted(law, &judge::PowerLaw::significance); })
      .column({name + "_verdict", on_fit, "", "exponent " + exponent + " (T20)"},
              [](const Law& law) { return judge::name_of(law.verdict); });
  return table;
}

}  // namespace

const dataset::Table<Convergence>& convergence_table() {
  using C = Convergence;
  static const dataset::Table<C> all = [] {
    dataset::Table<C> table;
    const auto bias_law = [](const C& c) {
      return std::vector<Law>{{c.bias_fit, c.bias_verdict, c.bias_reason.empty()}};
    };
    const auto noise_law = [](const C& c) {
      return std::vector<Law>{{c.noise_fit, c.noise_verdict, c.noise_verdict != judge::Verdict::not_checked}};
    };
    table
        .column({"convergence_placement", on_fit, "", "normalization placement (T1)"},
                [](const C& c) { return config::placement_label(c.spec); })
        .column({"convergence_input", on_fit, "", "what enters the stack"},
                [](const C& c) { return input_kind_names[static_cast<std::size_t>(c.spec.input.kind)]; })
        .column({"convergence_statistic", on_fit, "", "statistic of the stream"},
                [](const C& c) { return name_of(c.statistic); })
        .column({"bias", on_fit + " ladder_width", "1", "measured - theory of infinite width, mean over depth"},
                &C::bias)
        .column({"bias_stderr", on_fit + " ladder_width", "1", "standard error of the bias"}, &C::bias_error)
        .column({"bias_reason", on_fit, "", "why no verdict was given"}, &C::bias_reason)
        .column({"convergence_remedy", on_fit, "", "what would make an inconclusive verdict decide"}, &C::remedy)
        .column({"noise", on_fit + " group", "1", "spread of means over groups of seeds"}, &C::noise)
        .column({"noise_stderr", on_fit + " group", "1", "standard error of the spread"}, &C::noise_error)
        .part_if_any(law_table("bias", "width fitted to the bias", "-1"), bias_law)
        .part_if_any(law_table("noise", "the number of seeds fitted to the spread", "-1/2"), noise_law);
    return table;
  }();
  return all;
}

void put_convergence(const ConvergenceResult& result, dataset::Builder& builder) {
  std::vector<int> groups{1};
  for (std::size_t k = 0; k < result.fits.size(); ++k) {
    convergence_table().put(result.fits[k], builder.at(on_fit, k));
    while (groups.size() < result.fits[k].seeds.size()) groups.push_back(2 * groups.back());
  }
  builder.put("group", groups);
}

}  // namespace periscope::ladder
