#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "experiments/engine/judge/verdict_columns.h"
#include "experiments/engine/result/table.h"
#include "experiments/studies/formats/formats.h"
#include "sim/base/mapped.h"
#include "theory/kernels/kernel.h"

namespace periscope::formats {
namespace {

using dataset::Table;
using dataset::Type;

const std::string on_format = "stack format";
const std::string on_features = on_format + " features";

/// Returns the column `name` (means over seeds) and its standard errors. Stores nothing if there are no averages.
Table<std::vector<RunningMoments>> averages(const std::string& name, const std::string& on, const std::string& units,
                                            const std::string& meaning) {
  using Averages = std::vector<RunningMoments>;
  return Table<Averages>().curve(
      {name, on, units, meaning + ", mean over seeds"},
      {name + "_stderr", on, units, fmt::format("standard error of {} over seeds", name)}, [](const Averages& of) {
        const Curve curve{mapped(of, &RunningMoments::mean), mapped(of, &RunningMoments::standard_error)};
        return of.empty() ? std::nullopt : std::optional(curve);
      });
}

Table<Overflow> overflow_table(const std::string& name, const std::string& pass) {
  Table<FirstOverflow> first;
  first
      .column({name + "_signal", on_features, "", "first signal of a pass that is not finite, over all seeds"},
              [](const FirstOverflow& o) { return name_of(o.signal); })
      .column({name + "_sublayer", on_features, "1", "sublayer of " + name + "_signal"}, &FirstOverflow::sublayer);
  Table<Overflow> table;
  table.column({name + "_seeds", on_features, "1", "seeds with a signal that is not finite, " + pass}, &Overflow::seeds)
      .part(first, [](const Overflow& o) { return o.first.found ? &o.first : nullptr; });
  return table;
}

/// Coordinates of the dimensions `site` and `matrix`.
struct Coordinates {
  std::vector<Site> sites;
  std::vector<Weight> matrices;
};

Table<Variant> variant_table(const Coordinates& all) {
  Table<Variant> table;
  table
      .part(averages("stream_sqnr_predicted", on_features + " depth", "dB",
                     "SQNR of the stream by first-order propagation (T27)"),
            [](const Variant& v) { return &v.predicted; })
      .part(overflow_table("overflow", "forward"), [](const Variant& v) { return &v.forward; })
      .part(overflow_table("grad_overflow", "in the backward pass"), [](const Variant& v) { return &v.backward; });
  for (std::size_t m = 0; m < measure_facts.size(); ++m) {
    const MeasureFacts& facts = measure_facts[m];
    table.rows("site", averages(std::string(facts.name), on_features + " site place", facts.units, facts.meaning),
               [=](const Variant& v) {
                 return mapped(all.sites, [&](const Site& site) {
                   const auto found = v.numbers.find({site, static_cast<Measure>(m)});
                   return found == v.numbers.end() ? std::vector<RunningMoments>() : found->second;
                 });
               });
  }
  for (std::size_t m = 0; m < product_facts.size(); ++m) {
    const ProductFacts& facts = product_facts[m];
    table.rows("matrix",
               averages(std::string(facts.name), on_features + " matrix layer", std::string(facts.units),
                        std::string(facts.meaning)),
               [=](const Variant& v) {
                 return mapped(all.matrices, [&](Weight matrix) {
                   const auto found = v.products.find({matrix, static_cast<ProductMeasure>(m)});
                   return found == v.products.end() ? std::vector<RunningMoments>() : found->second;
                 });
               });
  }
  table.part(averages("layer_gradient_sqnr", on_features + " layer", "dB",
                      "SQNR of the gradient of all matrices of a layer together, in a whole pass"),
             [](const Variant& v) { return &v.layer_gradients; });
  return table;
}

Table<FormatResult> format_table(const Coordinates& all) {
  using Bound = theory::SignalBound;
  Table<Bound> first;
  first
      .column({"certificate_signal", on_format, "", "signal that may overflow first"},
              [](const Bound& b) { return name_of(b.signal); })
      .column({"certificate_sublayer", on_format, "1", "sublayer of certificate_signal"}, &Bound::sublayer)
      .column({"certificate_bound", on_format, "1", "bound on certificate_signal"}, &Bound::largest);
  Table<FormatCertificate> certificate;
  certificate
      .column({"certified", on_format, "1", "1: no input can overflow this format with the first seed's weights (T24)"},
              &FormatCertificate::certified)
      .part(first, [](const FormatCertificate& c) { return c.certified ? nullptr : &c.first; });
  using F = FormatResult;
  Table<F> massive;  // columns of formats that also ran with massive features
  massive
      .part(averages("massive_branch_cost", on_format, "dB",
                     "SQNR of modules' outputs, mean over sublayers: plain minus massive"),
            [](const F& f) { return std::optional(std::vector{f.branch_cost}); })
      .part(averages("massive_stream_cost", on_format, "dB",
                     "SQNR of the stream after the last sublayer: plain minus massive"),
            [](const F& f) { return std::optional(std::vector{f.stream_cost}); })
      .column({"massive_branch", on_format, "", "effect: hurts, helps, no difference seen, not finite"},
              [](const F& f) { return massive_words(f.massive); });
  Table<F> table;
  table
      .part(judge::verdict_columns("", on_format,
                                   "verdict on the stream's second moment and variance over depth (T12, T25)"),
            [](const F& f) { return &f.law; })
      .part(judge::verdict_columns("drift_", on_format,
                                   "verdict on second moment and variance over depth, compared with the same seeds in "
                                   "f64; tolerates one rounding of the stream"),
            [](const F& f) { return f.is_f64() ? nullptr : &f.drift; })
      .part(certificate, &F::certificate)
      .part(massive, [](const F& f) { return f.branch_cost.count() > 0 ? &f : nullptr; })
      .rows("features", variant_table(all), &F::variants);
  return table;
}

const Curve* predicted_moment(const FormatsStack& stack) {
  return stack.prediction.profile.find(Statistic::second_moment, Signal::x_out);
}

std::optional<std::vector<double>> predicted_maxima(const FormatsStack& stack) {
  const Curve* q = predicted_moment(stack);
  if (q == nullptr) return std::nullopt;
  // The largest |x| among n entries of a symmetric distribution is about the largest x among 2n entries.
  const double entries = 2.0 * stack.spec.input.tokens * stack.spec.model.width;
  return mapped(q->value, [&](double moment) { return theory::typical_maximum(entries, std::sqrt(moment)); });
}

Table<FormatsStack> stack_table(const Coordinates& all) {
  const std::string on_depth = "stack depth";
  Table<FormatsStack> table;
  table
      .column({"placement", "stack", "", "normalization placement (T1)"},
              [](const FormatsStack& s) { return config::placement_label(s.spec); })
      .column({"input", "stack", "", "kind of input"},
              [](const FormatsStack& s) { return input_kind_names[static_cast<std::size_t>(s.spec.input.kind)]; })
      .curve({"second_moment_predicted", on_depth, "1", "mean square of the stream, predicted at this width (T25)"},
             {"second_moment_predicted_stderr", on_depth, "1", "standard error of second_moment_predicted"},
             predicted_moment)
      .column_if_any({"maximum_predicted", on_depth, "1",
                      "approximate largest |x| of the stream, after norm C if there is one (T18)"},
                     predicted_maxima)
      .rows("format", format_table(all), &FormatsStack::formats);
  return table;
}

std::string label_of(const Site& site) {
  return (site.pass == Pass::backward ? "grad " : "") + std::string(name_of(site.signal));
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "formats", 7,
      {{"stack"},
       {"format", Type::text, "", "number format"},
       {"features", Type::text, "", "input variant: plain, or with massive features"},
       {"site", Type::text, "", "name of the signal; for a gradient, grad followed by that name"},
       {"place", Type::integer, "1", "sublayer; -1: before the first, 2L: after the last"},
       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
       {"matrix", Type::text, "", "weight matrix"},
       {"layer", Type::integer, "1", "layer; 0 for matrices outside layers"}},
      stack_table({}).specs());
  return schema;
}

dataset::Dataset dataset_of(const std::vector<FormatsStack>& stacks) {
  std::set<Site> sites;
  std::set<Weight> matrices;
  std::size_t longest = 0;
  int layers = 0;
  for (const FormatsStack& stack : stacks) {
    longest = std::max(longest, places_of(stack.spec.model));
    layers = std::max(layers, stack.spec.model.layers);
    for (const auto& [at, averages] : stack.formats.front().variants.front().numbers) sites.insert(at.first);
    for (const auto& [at, averages] : stack.formats.back().variants.front().products) matrices.insert(at.first);
  }
  const Coordinates all{{sites.begin(), sites.end()}, {matrices.begin(), matrices.end()}};
  const std::vector<FormatResult>& formats = stacks.front().formats;
  dataset::Builder builder(schema());
  builder.put("site", mapped(all.sites, label_of));
  builder.put("matrix", mapped(all.matrices, [](Weight matrix) { return name_of(matrix); }));
  builder.count("layer", static_cast<std::size_t>(layers));
  builder.put("format", mapped(formats, &FormatResult::name));
  builder.put("features", std::span(variant_names).first(formats.front().variants.size()));
  builder.count("place", longest, -1);
  builder.count("depth", longest - 1);
  const Table<FormatsStack> table = stack_table(all);
  for (std::size_t i = 0; i < stacks.size(); ++i) table.put(stacks[i], builder.at("stack", i));
  return builder.finish();
}

}  // namespace periscope::formats
