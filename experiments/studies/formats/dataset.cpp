#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/formats/formats.h"
#include "experiments/studies/formats/noise_budget.h"
#include "sim/model/parameters.h"

namespace periscope::formats {
namespace {

using dataset::Table;
using dataset::Type;
using Moments = std::span<const RunningMoments>;

const std::string on_format = "stack format";
const std::string on_features = on_format + " features";

/// A stack; `sites` are those of all stacks.
struct Stack {
  const FormatsStack& stack;
  const FormatsConfig& config;
  const std::vector<Site>& sites;
};

/// A stack in one format.
struct InFormat {
  const Stack& in;
  const FormatResult& format;
};

/// A stack in a format with one kind of input.
struct InVariant {
  const Stack& in;
  const Variant& variant;
};

/// Adds NAME, means over seeds, and NAME_stderr. `moments(s)` are along the dimensions that the row leaves open;
/// nothing is put for an empty list.
template <class S, class F>
void add_averages(Table<S>& table, const std::string& name, const std::string& on, const std::string& units,
                  const std::string& meaning, F moments) {
  const auto along = [moments](auto number) {
    return [moments, number](const S& s) -> std::optional<std::vector<double>> {
      const Moments all = moments(s);
      if (all.empty()) return std::nullopt;
      std::vector<double> numbers;
      for (const RunningMoments& m : all) numbers.push_back((m.*number)());
      return numbers;
    };
  };
  table.column_if_any({name, on, units, meaning + ", mean over seeds"}, along(&RunningMoments::mean))
      .column_if_any({name + "_stderr", on, units, fmt::format("standard error of {} over seeds", name)},
                     along(&RunningMoments::standard_error));
}

// -- one site, one part ------------------------------------------------------------------------------
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

/// The numbers of a site [measure, place].
Table<Moments> site_table() {
  Table<Moments> table;
  for (std::size_t m = 0; m < measure_names.size(); ++m) {
    add_averages(table, std::string(measure_names[m]), on_features + " site place", measure_texts[m].units,
                 measure_texts[m].meaning, [m](const Moments& all) {
                   const std::size_t places = all.size() / measure_names.size();
                   return all.subspan(m * places, places);
                 });
  }
  return table;
}

std::vector<std::pair<std::size_t, Moments>> sites_of(const InVariant& s) {
  const FormatsStack& stack = s.in.stack;
  const std::size_t length = measure_names.size() * places_of(stack.spec.model);
  std::vector<std::pair<std::size_t, Moments>> all;
  for (std::size_t i = 0; i < stack.sites.size(); ++i) {
    const auto position = std::ranges::find(s.in.sites, stack.sites[i]) - s.in.sites.begin();
    all.push_back({static_cast<std::size_t>(position), Moments(s.variant.numbers).subspan(i * length, length)});
  }
  return all;
}

/// The roundings of every part, by place.
std::vector<Moments> roundings_of(const InFormat& s) {
  const Moments all = s.format.variants.front().rounding;
  const std::size_t places = places_of(s.in.stack.spec.model);
  std::vector<Moments> parts;
  for (std::size_t first = 0; first < all.size(); first += places) parts.push_back(all.subspan(first, places));
  return parts;
}

// -- one variant -------------------------------------------------------------------------------------
Table<Overflow> overflow_table(const std::string& name, std::string_view pass) {
  Table<Overflow> first;
  first
      .column({name + "_signal", on_features, "", "the first such signal of a pass over all seeds"},
              [](const Overflow& o) { return name_of(o.first.signal); })
      .column({name + "_sublayer", on_features, "1", "its sublayer"},
              [](const Overflow& o) { return o.first.sublayer; });
  Table<Overflow> table;
  table
      .column({name + "_seeds", on_features, "1", fmt::format("seeds with a signal that is not finite, {}", pass)},
              &Overflow::seeds)
      .part(first, [](const Overflow& o) { return o.seeds > 0 ? &o : nullptr; });
  return table;
}

Table<InVariant> variant_table() {
  Table<InVariant> table;
  add_averages(table, "stream_sqnr_predicted", on_features + " depth", "dB",
               "SQNR of the stream by first-order propagation (T27)",
               [](const InVariant& s) { return Moments(s.variant.predicted); });
  table.part(overflow_table("overflow", "forward"), [](const InVariant& s) { return &s.variant.forward; })
      .part(overflow_table("grad_overflow", "in the backward pass"),
            [](const InVariant& s) { return &s.variant.backward; })
      .rows_at("site", site_table(), sites_of);
  return table;
}

// -- one format --------------------------------------------------------------------------------------
Table<FormatCertificate> certificate_table() {
  using C = FormatCertificate;
  Table<C> first;
  first.column({"certificate_signal", on_format, "", "signal that may overflow first"}, &C::signal)
      .column({"certificate_sublayer", on_format, "1", "its sublayer"}, &C::sublayer)
      .column({"certificate_bound", on_format, "1", "its bound"}, &C::bound);
  Table<C> table;
  table
      .column({"certified", on_format, "1", "1: no input can overflow this format with the first seed's weights (T24)"},
              &C::certified)
      .part(first, [](const C& c) { return c.certified ? nullptr : &c; });
  return table;
}

/// By place; mean over the matrices of a sublayer.
std::vector<double> weights_sqnr(const InFormat& s) {
  const StackSpec& spec = s.in.stack.spec;
  const Quantization weights = holding_for(s.in.config, *find_tensor_format(s.format.name), 0).of(Part::weights);
  std::vector<double> predicted(places_of(spec.model), std::nan(""));
  for (int l = 0; l < spec.model.sublayers(); ++l) {
    RunningMoments mean;
    for (const Weight w : weights_in(spec.model, l)) {
      if (!is_norm(w)) mean.add(weight_sqnr(spec, w, weights));
    }
    predicted[static_cast<std::size_t>(l + 1)] = mean.mean();
  }
  return predicted;
}

/// The columns of formats other than f64.
Table<InFormat> rounded_table() {
  Table<Moments> parts;
  add_averages(parts, "rounding_sqnr", on_format + " part place", "dB",
               "SQNR of single roundings, mean over the tensors of a part, forward, plain",
               [](const Moments& moments) { return moments; });
  Table<InFormat> table;
  table
      .part(judge::verdict_columns("drift_", on_format,
                                   "are second moment and variance over depth those in f64, but for one rounding of "
                                   "the stream? paired by seeds"),
            [](const InFormat& s) { return &s.format.drift; })
      .column({"drift_allowance", on_format, "1", "what one rounding of the stream may do"},
              [](const InFormat& s) { return s.format.stream_rounding; })
      .rows("part", parts, roundings_of)
      .column({"weights_sqnr_predicted", on_format + " place", "dB", "rounding_sqnr of weights, predicted (T26)"},
              weights_sqnr);
  return table;
}

Table<FormatResult> massive_table() {
  Table<FormatResult> table;
  add_averages(table, "massive_branch_cost", on_format, "dB",
               "SQNR of modules' outputs, mean over sublayers: plain minus massive",
               [](const FormatResult& f) { return Moments(&f.branch_cost, 1); });
  add_averages(table, "massive_stream_cost", on_format, "dB",
               "SQNR of the stream after the last sublayer: plain minus massive",
               [](const FormatResult& f) { return Moments(&f.stream_cost, 1); });
  table.column({"massive_branch", on_format, "", "hurts, helps or no difference seen"},
               [](const FormatResult& f) { return massive_words(f.massive); });
  return table;
}

std::vector<InVariant> variants_in(const InFormat& s) {
  std::vector<InVariant> all;
  for (const Variant& variant : s.format.variants) all.push_back({s.in, variant});
  return all;
}

Table<InFormat> format_table() {
  Table<InFormat> table;
  table
      .part(judge::verdict_columns(
                "", on_format, "does the stream's second moment and variance over depth agree with theory (T12, T25)?"),
            [](const InFormat& s) { return &s.format.law; })
      .part(rounded_table(), [](const InFormat& s) { return s.format.is_f64() ? nullptr : &s; })
      .part(certificate_table(),
            [](const InFormat& s) { return s.format.certificate ? &*s.format.certificate : nullptr; })
      .part(massive_table(), [](const InFormat& s) { return s.format.branch_cost.count() > 0 ? &s.format : nullptr; })
      .rows("features", variant_table(), variants_in);
  return table;
}

// -- one stack ---------------------------------------------------------------------------------------
std::vector<InFormat> formats_in(const Stack& s) {
  std::vector<InFormat> all;
  for (const FormatResult& format : s.stack.formats) all.push_back({s, format});
  return all;
}

const Table<Stack>& stack_table() {
  static const Table<Stack> all = [] {
    const auto curve = [](const FormatsStack& s) {
      return s.prediction.profile.find(Statistic::second_moment, Signal::x_out);
    };
    const std::string on_depth = "stack depth";
    Table<FormatsStack> predicted;
    predicted
        .column({"second_moment_predicted", on_depth, "1", "mean square of the stream, predicted at this width (T25)"},
                [=](const FormatsStack& s) { return curve(s)->value; })
        .column({"second_moment_predicted_stderr", on_depth, "1", "its standard error"},
                [=](const FormatsStack& s) { return curve(s)->standard_error; })
        .column({"maximum_predicted", on_depth, "1",
                 "about the largest |x| of the stream, after norm C where there is one (T18)"},
                &FormatsStack::predicted_maxima);
    Table<Stack> table;
    table
        .column({"placement", "stack", "", "normalization placement (T1)"},
                [](const Stack& s) { return config::placement_label(s.stack.spec); })
        .column({"input", "stack", "", "what enters the stack"},
                [](const Stack& s) { return input_kind_names[static_cast<std::size_t>(s.stack.spec.input.kind)]; })
        .part(predicted, [=](const Stack& s) { return curve(s.stack) == nullptr ? nullptr : &s.stack; })
        .rows("format", format_table(), formats_in);
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
      "formats", 4,
      {{"stack"},
       {"format", Type::text, "", "number format"},
       {"features", Type::text, "", "what enters: plain, or with massive features"},
       {"site", Type::text, "", "signal, or grad and the signal whose gradient it is"},
       {"place", Type::integer, "1", "sublayer; -1: before the first, 2L: after the last"},
       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
       {"part", Type::text, "", "what is rounded"}},
      stack_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const FormatsConfig& config, const FormatsResult& result) {
  dataset::Builder builder(schema());
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
  builder.put("site", labels);
  builder.put("format", formats);
  builder.put("features", std::span(features_names).first(variants_of(config)));
  builder.put("part", part_names);
  builder.count("place", longest, -1);
  builder.count("depth", longest - 1);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    stack_table().put({result.stacks[i], config, sites}, builder.at("stack", i));
  }
  return builder.finish();
}

}  // namespace periscope::formats
