#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/formats/formats.h"
#include "theory/kernels/kernel.h"

namespace periscope::formats {
namespace {

using dataset::Table;
using dataset::Type;
using Moments = std::span<const RunningMoments>;

const std::string on_format = "stack format";
const std::string on_features = on_format + " features";

/// A stack, in a format, with one kind of input; `sites` are those of all stacks.
struct Row {
  const std::vector<Site>& sites;
  const FormatsStack& stack;
  const FormatResult* format = nullptr;
  const Variant* variant = nullptr;
};

/// Adds NAME, means over seeds, and NAME_stderr. `moments(s)` are along the dimensions that the row leaves open;
/// nothing is put for an empty list.
template <class S, class F>
void add_averages(Table<S>& table, const std::string& name, const std::string& on, const std::string& units,
                  const std::string& meaning, F moments) {
  table.curve({name, on, units, meaning + ", mean over seeds"},
              {name + "_stderr", on, units, fmt::format("standard error of {} over seeds", name)}, [=](const S& s) {
                Curve curve;
                for (const RunningMoments& m : moments(s)) {
                  curve.value.push_back(m.mean());
                  curve.standard_error.push_back(m.standard_error());
                }
                return curve.value.empty() ? std::nullopt : std::optional(curve);
              });
}

struct MeasureText {
  const char *units, *meaning;
};
constexpr std::array<MeasureText, measure_names.size()> measure_texts{
    {{"dB", "signal-to-quantisation-noise ratio 10 log10(sum r^2 / sum (x - r)^2), r being the value in f64"},
     {"1", "mean of x^2"},
     {"1", "population variance over features, mean over tokens"},
     {"1", "largest |x|"},
     {"1", "share of entries that are 0 in the format and not in f64"},
     {"1", "share of entries that are not finite"},
     {"1", "mean of x^2 over that in f64, minus 1, seed by seed"},
     {"1", "the same of the variance"}}};

struct SiteRow {
  const BySite<RunningMoments>& numbers;
  Site site;
};

Table<SiteRow> site_table() {
  Table<SiteRow> table;
  for (std::size_t m = 0; m < measure_names.size(); ++m) {
    add_averages(table, std::string(measure_names[m]), on_features + " site place", measure_texts[m].units,
                 measure_texts[m].meaning, [m](const SiteRow& row) {
                   return Moments(row.numbers.at({row.site, static_cast<Measure>(m)}));
                 });
  }
  return table;
}

std::vector<std::pair<std::size_t, SiteRow>> sites_of(const Row& c) {
  std::vector<std::pair<std::size_t, SiteRow>> all;
  for (std::size_t i = 0; i < c.sites.size(); ++i) {
    if (c.variant->numbers.contains({c.sites[i], Measure::sqnr})) all.push_back({i, {c.variant->numbers, c.sites[i]}});
  }
  return all;
}

void add_overflow(Table<Row>& table, const std::string& name, const std::string& pass, Overflow Variant::*which) {
  const auto first = [which](auto value) {
    return [which, value](const Row& c) {
      const Overflow& overflow = c.variant->*which;
      return overflow.seeds > 0 ? std::optional(value(overflow.first)) : std::nullopt;
    };
  };
  table
      .column({name + "_seeds", on_features, "1", "seeds with a signal that is not finite, " + pass},
              [which](const Row& c) { return (c.variant->*which).seeds; })
      .column_if_any({name + "_signal", on_features, "", "the first such signal of a pass over all seeds"},
                     first([](const FirstOverflow& o) { return name_of(o.signal); }))
      .column_if_any({name + "_sublayer", on_features, "1", "its sublayer"},
                     first([](const FirstOverflow& o) { return o.sublayer; }));
}

Table<Row> variant_table() {
  Table<Row> table;
  add_averages(table, "stream_sqnr_predicted", on_features + " depth", "dB",
               "SQNR of the stream by first-order propagation (T27)",
               [](const Row& c) { return Moments(c.variant->predicted); });
  add_overflow(table, "overflow", "forward", &Variant::forward);
  add_overflow(table, "grad_overflow", "in the backward pass", &Variant::backward);
  table.rows_at("site", site_table(), sites_of);
  return table;
}

void add_certificate(Table<Row>& table) {
  const auto first = [](auto value) {
    return [value](const Row& c) {
      const std::optional<FormatCertificate>& found = c.format->certificate;
      return found && !found->certified ? std::optional(value(found->first)) : std::nullopt;
    };
  };
  using Bound = theory::SignalBound;
  table
      .column_if_any(
          {"certified", on_format, "1", "1: no input can overflow this format with the first seed's weights (T24)"},
          [](const Row& c) {
            const std::optional<FormatCertificate>& found = c.format->certificate;
            return found ? std::optional(found->certified) : std::nullopt;
          })
      .column_if_any({"certificate_signal", on_format, "", "signal that may overflow first"},
                     first([](const Bound& b) { return name_of(b.signal); }))
      .column_if_any({"certificate_sublayer", on_format, "1", "its sublayer"},
                     first([](const Bound& b) { return b.sublayer; }))
      .column_if_any({"certificate_bound", on_format, "1", "its bound"},
                     first([](const Bound& b) { return b.largest; }));
}

/// Nothing without massive features.
void add_massive(Table<Row>& table) {
  const auto cost = [](RunningMoments FormatResult::*which) {
    return [which](const Row& c) {
      const RunningMoments& moments = c.format->*which;
      return Moments(&moments, moments.count() > 0 ? 1 : 0);
    };
  };
  add_averages(table, "massive_branch_cost", on_format, "dB",
               "SQNR of modules' outputs, mean over sublayers: plain minus massive", cost(&FormatResult::branch_cost));
  add_averages(table, "massive_stream_cost", on_format, "dB",
               "SQNR of the stream after the last sublayer: plain minus massive", cost(&FormatResult::stream_cost));
  table.column_if_any({"massive_branch", on_format, "", "hurts, helps or no difference seen"}, [](const Row& c) {
    return c.format->branch_cost.count() > 0 ? std::optional(massive_words(c.format->massive)) : std::nullopt;
  });
}

Table<Row> format_table() {
  Table<Row> table;
  table
      .part(judge::verdict_columns(
                "", on_format, "does the stream's second moment and variance over depth agree with theory (T12, T25)?"),
            [](const Row& c) { return &c.format->law; })
      .part(judge::verdict_columns("drift_", on_format,
                                   "are second moment and variance over depth those in f64, but for one rounding of "
                                   "the stream? paired by seeds"),
            [](const Row& c) { return c.format->is_f64() ? nullptr : &c.format->drift; })
      .column_if_any({"drift_allowance", on_format, "1", "what one rounding of the stream may do"}, [](const Row& c) {
        return c.format->is_f64() ? std::nullopt : std::optional(c.format->stream_rounding);
      });
  add_certificate(table);
  add_massive(table);
  table.rows("features", variant_table(), [](const Row& c) {
    std::vector<Row> rows;
    for (const Variant& variant : c.format->variants) rows.push_back({c.sites, c.stack, c.format, &variant});
    return rows;
  });
  return table;
}

const Curve* predicted_moment(const Row& c) {
  return c.stack.prediction.profile.find(Statistic::second_moment, Signal::x_out);
}

std::optional<std::vector<double>> predicted_maxima(const Row& c) {
  const Curve* q = predicted_moment(c);
  if (q == nullptr) return std::nullopt;
  // |x| of n symmetric entries is as large as the largest of 2n.
  const double entries = 2.0 * c.stack.spec.input.tokens * c.stack.spec.model.width;
  std::vector<double> maxima;
  for (const double moment : q->value) maxima.push_back(theory::typical_maximum(entries, std::sqrt(moment)));
  return maxima;
}

const Table<Row>& stack_table() {
  static const Table<Row> all = [] {
    const std::string on_depth = "stack depth";
    Table<Row> table;
    table
        .column({"placement", "stack", "", "normalization placement (T1)"},
                [](const Row& c) { return config::placement_label(c.stack.spec); })
        .column({"input", "stack", "", "what enters the stack"},
                [](const Row& c) { return input_kind_names[static_cast<std::size_t>(c.stack.spec.input.kind)]; })
        .curve({"second_moment_predicted", on_depth, "1", "mean square of the stream, predicted at this width (T25)"},
               {"second_moment_predicted_stderr", on_depth, "1", "its standard error"}, predicted_moment)
        .column_if_any({"maximum_predicted", on_depth, "1",
                        "about the largest |x| of the stream, after norm C where there is one (T18)"},
                       predicted_maxima)
        .rows("format", format_table(), [](const Row& c) {
          std::vector<Row> rows;
          for (const FormatResult& format : c.stack.formats) rows.push_back({c.sites, c.stack, &format});
          return rows;
        });
    return table;
  }();
  return all;
}

std::string label_of(const Site& site) {
  return (site.pass == Pass::backward ? "grad " : "") + std::string(name_of(site.signal));
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "formats", 5,
      {{"stack"},
       {"format", Type::text, "", "number format"},
       {"features", Type::text, "", "what enters: plain, or with massive features"},
       {"site", Type::text, "", "signal, or grad and the signal whose gradient it is"},
       {"place", Type::integer, "1", "sublayer; -1: before the first, 2L: after the last"},
       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"}},
      stack_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const FormatsConfig& config, const FormatsResult& result) {
  dataset::Builder builder(schema());
  std::set<Site> all_sites;
  std::size_t longest = 0;
  for (const FormatsStack& stack : result.stacks) {
    longest = std::max(longest, places_of(stack.spec.model));
    for (const Site& site : compared_sites(stack.spec.model, config.run.backward)) all_sites.insert(site);
  }
  const std::vector<Site> sites(all_sites.begin(), all_sites.end());
  std::vector<std::string> labels;
  for (const Site& site : sites) labels.push_back(label_of(site));
  std::vector<std::string> formats;
  for (const FormatResult& format : result.stacks.front().formats) formats.push_back(format.name);
  builder.put("site", labels);
  builder.put("format", formats);
  builder.put("features", std::span(features_names).first(variants_of(config)));
  builder.count("place", longest, -1);
  builder.count("depth", longest - 1);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    stack_table().put({sites, result.stacks[i]}, builder.at("stack", i));
  }
  return builder.finish();
}

}  // namespace periscope::formats
