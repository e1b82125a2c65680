#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/core/config/provenance.h"
#include "experiments/studies/formats/formats.h"
#include "experiments/studies/formats/noise_budget.h"
#include "sim/model/parameters.h"

namespace periscope::formats {
namespace {

using Json = Columns::Json;
using Row = Columns::Row;

std::string label_of(const Site& site) {
  return (site.pass == Pass::backward ? "grad " : "") + std::string(name_of(site.signal));
}

struct Averages {
  std::vector<double> mean, error;

  void add(const RunningMoments& m) {
    mean.push_back(m.mean());
    error.push_back(m.standard_error());
  }
};

Averages averages_of(const RunningMoments* first, std::size_t count) {
  Averages all;
  for (std::size_t i = 0; i < count; ++i) all.add(first[i]);
  return all;
}

void put(const Row& row, const std::string& name, const Averages& averages) {
  row.put(name, averages.mean);
  row.put(name + "_stderr", averages.error);
}

void put_law(const Row& row, const Agreement& law) {
  row.put("verdict", name_of(law.verdict));
  row.put("verdict_reason", law.reason);
  if (law.worst >= 0) {
    const Cell& worst = law.cells[static_cast<std::size_t>(law.worst)];
    row.put("worst_cell", worst.name());
    row.put("worst_z", worst.z());
    row.put("worst_excess", worst.excess());
    row.put("worst_critical", law.critical);
  }
  if (law.cells.empty()) return;
  row.put("power_worst", law.power.worst);
  row.put("power_median", law.power.median);
}

void put_drift(const Row& row, const FormatResult& format) {
  const Agreement& drift = format.drift;
  row.put("drift_verdict", name_of(drift.verdict));
  row.put("drift_reason", drift.reason);
  row.put("drift_allowance", format.stream_rounding);
  if (drift.worst < 0) return;
  const Cell& worst = drift.cells[static_cast<std::size_t>(drift.worst)];
  row.put("drift_worst", worst.name());
  row.put("drift_worst_value", worst.measured);
  row.put("drift_worst_stderr", worst.measured_error);
  row.put("drift_power", drift.power.worst);
}

void put_overflow(const Row& row, const std::string& prefix, const Overflow& overflow) {
  row.put(prefix + "_seeds", overflow.seeds);
  if (overflow.seeds == 0) return;
  row.put(prefix + "_signal", name_of(overflow.first.signal));
  row.put(prefix + "_sublayer", overflow.first.sublayer);
  row.put(prefix + "_seed", overflow.seed);
}

/// One stack in one format.
class FormatWriter {
 public:
  /// `sites` are those of all stacks.
  FormatWriter(const FormatsConfig& config, const FormatsStack& stack, const std::vector<Site>& sites,
               std::size_t tests)
      : config_(config), stack_(stack), sites_(sites), tests_(tests) {}

  void put_format(const Row& row, std::size_t f) const {
    const FormatResult& format = stack_.formats[f];
    put_law(row, format.law);
    if (f > 0) put_drift(row, format);
    if (format.certificate) {
      row.put("certified", format.certificate->certified);
      if (!format.certificate->certified) {
        row.put("certificate_signal", format.certificate->signal);
        row.put("certificate_sublayer", format.certificate->sublayer);
        row.put("certificate_bound", format.certificate->bound);
      }
    }
    if (f > 0) put_roundings(row, *find_tensor_format(format.name), format.variants.front());
    for (const auto& [name, effect] :
         {std::pair("massive_branch", &format.massive.branch), std::pair("massive_stream", &format.massive.stream)}) {
      if (effect->count() == 0) continue;
      row.put(fmt::format("{}_cost", name), effect->mean());
      row.put(fmt::format("{}_cost_stderr", name), effect->standard_error());
      row.put(name, massive_words(*effect, tests_, config_.agreement.familywise_error));
    }
    for (std::size_t v = 0; v < format.variants.size(); ++v) {
      put_variant(row.at("features", v, features_names[v]), format.variants[v]);
    }
  }

 private:
  void put_roundings(const Row& row, const TensorFormat& format, const Variant& variant) const {
    const std::vector<double> maxima = stack_.predicted_maxima();
    if (!format.is_integer() && !maxima.empty()) {
      row.put("margin_predicted", format.floating.largest / *std::ranges::max_element(maxima));
    }
    const std::size_t places = places_of(stack_.spec.model);
    for (std::size_t p = 0; p < part_names.size(); ++p) {
      put(row.at("part", p, part_names[p]), "rounding_sqnr", averages_of(&variant.rounding[p * places], places));
    }
    const Quantization weights = holding_for(config_, format, 0).of(Part::weights);
    std::vector<double> predicted(places, std::nan(""));
    for (int l = 0; l < stack_.spec.model.sublayers(); ++l) {
      RunningMoments mean;
      for (const Weight w : weights_in(stack_.spec.model, l)) {
        if (!is_norm(w)) mean.add(weight_sqnr(stack_.spec, w, weights));
      }
      predicted[static_cast<std::size_t>(l + 1)] = mean.mean();
    }
    row.put("weights_sqnr_predicted", predicted);
  }

  void put_variant(const Row& row, const Variant& variant) const {
    put_overflow(row, "overflow", variant.forward);
    put_overflow(row, "grad_overflow", variant.backward);
    if (!variant.predicted.empty()) {
      put(row, "stream_sqnr_predicted", averages_of(variant.predicted.data(), variant.predicted.size()));
    }
    const std::size_t places = places_of(stack_.spec.model);
    for (std::size_t s = 0; s < stack_.sites.size(); ++s) {
      const auto index = std::ranges::find(sites_, stack_.sites[s]) - sites_.begin();
      const Row at = row.at("site", static_cast<std::size_t>(index), label_of(stack_.sites[s]));
      for (std::size_t m = 0; m < measure_names.size(); ++m) {
        put(at, std::string(measure_names[m]),
            averages_of(&variant.numbers[stack_.index(s, static_cast<Measure>(m), 0)], places));
      }
      put(at, "second_moment_drift", averages_of(&variant.second_moment_drift[s * places], places));
      put(at, "variance_drift", averages_of(&variant.variance_drift[s * places], places));
    }
  }

  const FormatsConfig& config_;
  const FormatsStack& stack_;
  const std::vector<Site>& sites_;
  std::size_t tests_;
};

}  // namespace

Columns columns(const FormatsConfig& config, const FormatsResult& result) {
  Columns columns(schema(), provenance(config));
  if (result.stacks.empty()) return columns;
  std::set<Site> all_sites;
  std::size_t longest = 0;
  for (const FormatsStack& stack : result.stacks) {
    longest = std::max(longest, places_of(stack.spec.model));
    all_sites.insert(stack.sites.begin(), stack.sites.end());
  }
  const std::vector<Site> sites(all_sites.begin(), all_sites.end());
  std::vector<std::string> labels;
  for (const Site& site : sites) labels.push_back(label_of(site));
  std::vector<std::string> formats;
  for (const FormatResult& format : result.stacks.front().formats) formats.push_back(format.name);
  columns.put("format", formats);
  columns.put("features", std::vector<std::string>(features_names.begin(),
                                                   features_names.begin() + static_cast<int>(variants_of(config))));
  columns.put("site", labels);
  columns.put("part", std::vector<std::string>(part_names.begin(), part_names.end()));
  columns.count("place", longest, -1);
  columns.count("depth", longest - 1);
  const std::size_t tests = result.stacks.size() * (formats.size() - 1);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    const FormatsStack& stack = result.stacks[i];
    const Row row = columns.at("stack", i);
    row.put("placement", placement_label(stack.spec));
    row.put("placement_value", resolved_json(stack.spec)["model"]["placement"]);
    row.put("input", input_kind_names[static_cast<std::size_t>(stack.spec.input.kind)]);
    if (const Curve* q = stack.prediction.profile.find(Statistic::second_moment, Signal::x_out)) {
      row.put("second_moment_predicted", q->value);
      row.put("second_moment_predicted_stderr", q->standard_error);
      row.put("maximum_predicted", stack.predicted_maxima());
    }
    const FormatWriter writer(config, stack, sites, tests);
    for (std::size_t f = 0; f < formats.size(); ++f) writer.put_format(row.at("format", f, formats[f]), f);
  }
  return columns;
}

}  // namespace periscope::formats
