#include <fmt/format.h>

#include <algorithm>

#include "experiments/studies/formats/dataset_tables.h"

namespace periscope::formats {
namespace {

using dataset::Table;

struct MeasureText {
  std::string_view units, meaning;
};

constexpr std::array<MeasureText, measure_names.size()> measure_texts{
    {{"dB", "signal-to-quantisation-noise ratio 10 log10(sum r^2 / sum (x - r)^2), r being the value in f64"},
     {"1", "relative error ||x - r|| / ||r||"},
     {"1", "angle between x and r over pi, mean over tokens"},
     {"1", "mean of x^2"},
     {"1", "population variance over features, mean over tokens"},
     {"1", "largest |x|, mean over seeds"},
     {"1", "share of entries that are 0 in the format and not in f64"},
     {"1", "share of entries that are not finite"}}};

/// A site by its position among those of its stack.
struct AtSite {
  const FormatsStack& stack;
  const Variant& variant;
  std::size_t site;

  [[nodiscard]] std::span<const RunningMoments> numbers(Measure measure) const {
    return {&variant.numbers[stack.index(site, measure, 0)], places_of(stack.spec.model)};
  }
  [[nodiscard]] std::span<const RunningMoments> drift(const std::vector<RunningMoments>& all) const {
    const std::size_t places = places_of(stack.spec.model);
    return {&all[site * places], places};
  }
};

Table<AtSite> site_table() {
  Table<AtSite> table;
  const auto add = [&](const std::string& name, std::string_view units, std::string_view meaning, auto moments) {
    const std::string on = on_features + " site place";
    const std::string error = name + "_stderr";
    add_averages(table, {name, on, std::string(units), fmt::format("{}, mean over seeds", meaning)},
                 {error, on, std::string(units), fmt::format("standard error of {} over seeds", name)}, moments);
  };
  for (std::size_t m = 0; m < measure_names.size(); ++m) {
    add(std::string(measure_names[m]), measure_texts[m].units, measure_texts[m].meaning,
        [m](const AtSite& s) { return s.numbers(static_cast<Measure>(m)); });
  }
  add("second_moment_drift", "1", "mean of x^2 over that in f64, minus 1, seed by seed",
      [](const AtSite& s) { return s.drift(s.variant.second_moment_drift); });
  add("variance_drift", "1", "the same of the variance",
      [](const AtSite& s) { return s.drift(s.variant.variance_drift); });
  return table;
}

Table<Overflow> overflow_table(const std::string& name, std::string_view way) {
  const auto if_any = [](auto value) {
    return [value](const Overflow& o) { return o.seeds > 0 ? std::optional(std::invoke(value, o)) : std::nullopt; };
  };
  Table<Overflow> table;
  table
      .column({name + "_seeds", on_features, "1", fmt::format("seeds with a signal that is not finite, {}", way)},
              &Overflow::seeds)
      .column_if_any({name + "_signal", on_features, "", "the first such signal of a pass over all seeds"},
                     if_any([](const Overflow& o) { return name_of(o.first.signal); }))
      .column_if_any({name + "_sublayer", on_features, "1", "its sublayer"},
                     if_any([](const Overflow& o) { return o.first.sublayer; }))
      .column_if_any({name + "_seed", on_features, "1", "its seed"}, if_any(&Overflow::seed));
  return table;
}

std::vector<std::pair<std::size_t, AtSite>> sites_of(const InVariant& s) {
  std::vector<std::pair<std::size_t, AtSite>> all;
  const FormatsStack& stack = s.in.stack;
  for (std::size_t site = 0; site < stack.sites.size(); ++site) {
    const auto position = std::ranges::find(s.in.sites, stack.sites[site]) - s.in.sites.begin();
    all.push_back({static_cast<std::size_t>(position), {stack, s.variant, site}});
  }
  return all;
}

}  // namespace

Table<InVariant> variant_table() {
  Table<InVariant> table;
  add_averages(
      table,
      {"stream_sqnr_predicted", on_features + " depth", "dB", "SQNR of the stream by first-order propagation (T27)"},
      {"stream_sqnr_predicted_stderr", on_features + " depth", "dB", "its standard error over seeds"},
      [](const InVariant& s) -> const std::vector<RunningMoments>& { return s.variant.predicted; });
  table.part(overflow_table("overflow", "forward"), [](const InVariant& s) { return &s.variant.forward; })
      .part(overflow_table("grad_overflow", "in the backward pass"),
            [](const InVariant& s) { return &s.variant.backward; })
      .rows_at("site", site_table(), sites_of);
  return table;
}

}  // namespace periscope::formats
