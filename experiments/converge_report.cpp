#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "experiments/common/provenance.h"
#include "experiments/converge.h"

namespace periscope {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::string exponent(const PowerLaw& fit, bool fitted) {
  return fitted ? fmt::format("{:6.2f} ± {:.2f}", fit.exponent, fit.exponent_error) : std::string("-");
}

std::string_view name_of(Statistic statistic) { return statistic_names[static_cast<std::size_t>(statistic)]; }

nlohmann::ordered_json fit_json(const PowerLaw& fit, Verdict verdict) {
  return {{"exponent", fit.exponent},         {"exponent_error", fit.exponent_error},
          {"amplitude", fit.amplitude},       {"chi_squared", fit.chi_squared},
          {"significance", fit.significance}, {"verdict", periscope::name_of(verdict)}};
}

}  // namespace

std::string converge_table(const ConvergeResult& result) {
  std::string table = fmt::format("{:<13} {:<14} {:<20} {:<11} {:<18} {:<11} {}\n", "placement", "statistic",
                                  "bias over width: -1", "verdict", "noise: -1/2", "verdict", "");
  for (const Convergence& c : result.fits) {
    table +=
        fmt::format("{:<13} {:<14} {:<20} {:<11} {:<18} {:<11} {}\n", c.spec.model.placement.name, name_of(c.statistic),
                    exponent(c.bias_fit, c.bias_reason.empty()), periscope::name_of(c.bias_verdict),
                    exponent(c.noise_fit, c.noise_verdict != Verdict::not_checked), periscope::name_of(c.noise_verdict),
                    c.bias_reason);
  }
  return table + fmt::format(
                     "exponents of power laws fitted to measured − predicted over width, and to the spread of "
                     "means over the number of seeds; limit {:.1f} standard errors.\n",
                     result.critical);
}

nlohmann::ordered_json converge_json(const ConvergeResult& result) {
  nlohmann::ordered_json fits = nlohmann::ordered_json::array();
  for (const Convergence& c : result.fits) {
    fits.push_back({{"placement", resolved_json(c.spec)["model"]["placement"]},
                    {"input", input_kind_names[static_cast<std::size_t>(c.spec.input.kind)]},
                    {"statistic", name_of(c.statistic)},
                    {"width", c.width},
                    {"bias", c.bias},
                    {"bias_stderr", c.bias_error},
                    {"bias_fit", fit_json(c.bias_fit, c.bias_verdict)},
                    {"bias_reason", c.bias_reason},
                    {"seeds", c.seeds},
                    {"noise", c.noise},
                    {"noise_stderr", c.noise_error},
                    {"noise_fit", fit_json(c.noise_fit, c.noise_verdict)}});
  }
  return fits;
}

NetcdfDataset converge_dataset(const ConvergeConfig& config, const ConvergeResult& result) {
  NetcdfDataset data;
  data.attributes = provenance(config);
  std::size_t groups = 1;
  for (const Convergence& c : result.fits) groups = std::max(groups, c.seeds.size());
  data.dimensions = {{"fit", result.fits.size()}, {"width", config.widths.size()}, {"group", groups}};
  std::vector<std::string> placements, inputs, statistics, bias_verdicts, bias_reasons, noise_verdicts;
  std::vector<double> bias, bias_error, exponents, exponent_errors, amplitudes, noise, noise_error, noise_exponents,
      noise_exponent_errors, noise_amplitudes, group_sizes;
  const auto append = [](std::vector<double>& all, std::vector<double> row, std::size_t size) {
    row.resize(size, nan);
    all.insert(all.end(), row.begin(), row.end());
  };
  for (const Convergence& c : result.fits) {
    placements.push_back(placement_label(c.spec));
    inputs.emplace_back(input_kind_names[static_cast<std::size_t>(c.spec.input.kind)]);
    statistics.emplace_back(name_of(c.statistic));
    append(bias, c.bias, config.widths.size());
    append(bias_error, c.bias_error, config.widths.size());
    append(noise, c.noise, groups);
    append(noise_error, c.noise_error, groups);
    const bool bias_fitted = c.bias_reason.empty();
    const bool noise_fitted = c.noise_verdict != Verdict::not_checked;
    exponents.push_back(bias_fitted ? c.bias_fit.exponent : nan);
    exponent_errors.push_back(bias_fitted ? c.bias_fit.exponent_error : nan);
    amplitudes.push_back(bias_fitted ? c.bias_fit.amplitude : nan);
    noise_exponents.push_back(noise_fitted ? c.noise_fit.exponent : nan);
    noise_exponent_errors.push_back(noise_fitted ? c.noise_fit.exponent_error : nan);
    noise_amplitudes.push_back(noise_fitted ? c.noise_fit.amplitude : nan);
    bias_verdicts.emplace_back(periscope::name_of(c.bias_verdict));
    bias_reasons.push_back(c.bias_reason);
    noise_verdicts.emplace_back(periscope::name_of(c.noise_verdict));
  }
  for (std::size_t g = 0; g < groups; ++g) group_sizes.push_back(std::pow(2.0, static_cast<double>(g)));
  const std::vector<double> widths(config.widths.begin(), config.widths.end());
  data.variables = {
      {"placement", {"fit"}, placements, "", "normalization placement (T1)"},
      {"input", {"fit"}, inputs, "", "what enters the stack"},
      {"statistic", {"fit"}, statistics, "", "statistic of the stream"},
      {"width", {"width"}, widths, "1", "D"},
      {"group", {"group"}, group_sizes, "1", "seeds averaged"},
      {"bias", {"fit", "width"}, bias, "1", "measured - predicted, mean over depth"},
      {"bias_stderr", {"fit", "width"}, bias_error, "1", "standard error of the bias"},
      {"bias_exponent", {"fit"}, exponents, "1", "exponent of width fitted to the bias"},
      {"bias_exponent_stderr", {"fit"}, exponent_errors, "1", "its standard error"},
      {"bias_amplitude", {"fit"}, amplitudes, "1", "bias = amplitude * width^exponent"},
      {"bias_verdict", {"fit"}, bias_verdicts, "", "exponent -1 (T20)"},
      {"bias_reason", {"fit"}, bias_reasons, "", "why no verdict was given"},
      {"noise", {"fit", "group"}, noise, "1", "spread of means over groups of seeds"},
      {"noise_stderr", {"fit", "group"}, noise_error, "1", "standard error of the spread"},
      {"noise_exponent", {"fit"}, noise_exponents, "1", "exponent of the number of seeds fitted to the spread"},
      {"noise_exponent_stderr", {"fit"}, noise_exponent_errors, "1", "its standard error"},
      {"noise_amplitude", {"fit"}, noise_amplitudes, "1", "spread = amplitude * seeds^exponent"},
      {"noise_verdict", {"fit"}, noise_verdicts, "", "exponent -1/2 (T20)"},
  };
  return data;
}

}  // namespace periscope
