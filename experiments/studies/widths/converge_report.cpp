#include <fmt/format.h>

#include <cmath>

#include "experiments/core/config/provenance.h"
#include "experiments/core/config/weights_choice.h"
#include "experiments/core/dataset/text_table.h"
#include "experiments/studies/widths/converge.h"

namespace periscope::converge {
namespace {

std::string exponent(const PowerLaw& fit, bool fitted) {
  if (!fitted) return "-";
  const bool bounded = std::isfinite(fit.exponent_error);
  return fmt::format("{:.2f} ± {}", fit.exponent, bounded ? fmt::format("{:.2f}", fit.exponent_error) : "anything");
}

/// A fit that tells nothing is NaN in files, of which figures are drawn; JSON has its numbers, and its verdict.
void put_fit(const Columns::Row& row, const std::string& name, const PowerLaw& fit, Verdict verdict, bool fitted) {
  const auto number = [&](const char* part, double value) {
    (fitted ? row : row.for_json()).put(name + part, value);
    if (!fitted) row.for_files().put(name + part, Columns::Json());
  };
  number("_exponent", fit.exponent);
  number("_exponent_stderr", fit.exponent_error);
  number("_amplitude", fit.amplitude);
  number("_chi_squared", fit.chi_squared);
  number("_significance", fit.significance);
  row.put(name + "_verdict", name_of(verdict));
}

}  // namespace

std::string table(const ConvergeResult& result) {
  TextTable table({"placement", "statistic", ">bias over width: -1", "verdict", ">noise: -1/2", "verdict", ""});
  for (const Convergence& c : result.fits) {
    table.add({std::string(c.spec.model.placement.name), std::string(name_of(c.statistic)),
               exponent(c.bias_fit, c.bias_reason.empty()), std::string(name_of(c.bias_verdict)),
               exponent(c.noise_fit, c.noise_verdict != Verdict::not_checked), std::string(name_of(c.noise_verdict)),
               c.bias_reason.empty() || c.remedy.empty() ? c.bias_reason + c.remedy : c.bias_reason + "; " + c.remedy});
  }
  return table.text() +
         fmt::format(
             "exponents of power laws fitted to measured − predicted over width, and to the spread of "
             "means over the number of seeds; limit {:.1f} standard errors. inconclusive: 0, or -2 and -1, "
             "would agree too.\n",
             result.critical);
}

const Schema& schema() {
  static const Schema schema = [] {
    const std::string fit = "fits/[fit]/";
    const std::string order = "files have the coordinate";
    std::vector<ColumnSpec> columns{
        {"placement", "fit", "", "normalization placement (T1)", "", "JSON has the name or the table"},
        json_only("placement_value", fit + "placement", "name or table of the placement", "files have its label"),
        {"input", "fit", "", "what enters the stack", fit + "input"},
        {"statistic", "fit", "", "statistic of the stream", fit + "statistic"},
        json_only("widths", fit + "width", "D", order),
        {"bias", "fit width", "1", "measured - predicted, mean over depth", fit + "bias"},
        {"bias_stderr", "fit width", "1", "standard error of the bias", fit + "bias_stderr"},
        {"bias_reason", "fit", "", "why no verdict was given", fit + "bias_reason"},
        {"remedy", "fit", "", "what would make an inconclusive verdict decide", fit + "remedy"},
        {"weights", "width", "", "how random matrices were drawn: dense, or matrix-free (T21)", "weights"},
        json_only("seeds", fit + "seeds", "seeds averaged", order),
        {"noise", "fit group", "1", "spread of means over groups of seeds", fit + "noise"},
        {"noise_stderr", "fit group", "1", "standard error of the spread", fit + "noise_stderr"}};
    const auto law = [&](const std::string& name, const std::string& over, const std::string& exponent) {
      const std::string path = fit + name + "_fit/";
      columns.insert(
          columns.end(),
          {{name + "_exponent", "fit", "1", "exponent of " + over, path + "exponent"},
           {name + "_exponent_stderr", "fit", "1", "its standard error", path + "exponent_error"},
           {name + "_amplitude", "fit", "1", name + " = amplitude * that number ^ exponent", path + "amplitude"},
           {name + "_chi_squared", "fit", "1", "chi squared of the fit", path + "chi_squared"},
           {name + "_significance", "fit", "1", "standard errors between it and nothing", path + "significance"},
           {name + "_verdict", "fit", "", "exponent " + exponent + " (T20)", path + "verdict"}});
    };
    law("bias", "width fitted to the bias", "-1");
    law("noise", "the number of seeds fitted to the spread", "-1/2");
    return Schema("converge", 1, {{"fit"}, {"width", "1", "D"}, {"group", "1", "seeds averaged"}}, std::move(columns));
  }();
  return schema;
}

Columns columns(const ConvergeConfig& config, const ConvergeResult& result) {
  Columns columns(schema(), provenance(config));
  columns.put("width", config.widths);
  columns.put("weights", weights_at_widths(config, config.widths, "converge.widths"));
  std::vector<double> groups{1.0};
  for (std::size_t k = 0; k < result.fits.size(); ++k) {
    const Convergence& c = result.fits[k];
    const Columns::Row row = columns.at("fit", k);
    row.put("placement", placement_label(c.spec));
    row.put("placement_value", resolved_json(c.spec)["model"]["placement"]);
    row.put("input", input_kind_names[static_cast<std::size_t>(c.spec.input.kind)]);
    row.put("statistic", name_of(c.statistic));
    row.put("widths", c.width);
    row.put("bias", c.bias);
    row.put("bias_stderr", c.bias_error);
    put_fit(row, "bias", c.bias_fit, c.bias_verdict, c.bias_reason.empty());
    row.put("bias_reason", c.bias_reason);
    row.put("remedy", c.remedy);
    row.put("seeds", c.seeds);
    row.put("noise", c.noise);
    row.put("noise_stderr", c.noise_error);
    put_fit(row, "noise", c.noise_fit, c.noise_verdict, c.noise_verdict != Verdict::not_checked);
    while (groups.size() < c.seeds.size()) groups.push_back(2.0 * groups.back());
  }
  columns.put("group", groups);
  return columns;
}

}  // namespace periscope::converge
