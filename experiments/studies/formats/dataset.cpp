#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/studies/formats/dataset_tables.h"
#include "experiments/studies/formats/noise_budget.h"
#include "sim/model/parameters.h"

namespace periscope::formats {
namespace {

using dataset::Table;
using dataset::Type;

/// Adds what massive features cost: the difference of two SQNRs and the word for it.
void add_massive(Table<InFormat>& table, const std::string& key, const std::string& meaning,
                 RunningMoments MassiveEffect::*effect) {
  const std::string name = "massive_" + key;
  add_averages(table, {name + "_cost", on_format, "dB", meaning},
               {name + "_cost_stderr", on_format, "dB", "its standard error"}, [effect](const InFormat& s) {
                 const RunningMoments& m = s.format.massive.*effect;
                 return std::span(&m, m.count() == 0 ? 0 : 1);
               });
  table.column_if_any({name, on_format, "", "hurts, helps or no difference seen"},
                      [effect](const InFormat& s) -> std::optional<std::string> {
                        const RunningMoments& m = s.format.massive.*effect;
                        if (m.count() == 0) return std::nullopt;
                        return massive_words(m, s.in.tests, s.in.config.agreement.familywise_error);
                      });
}

std::optional<double> margin_of(const InFormat& s) {
  const TensorFormat format = *find_tensor_format(s.format.name);
  if (format.is_integer() || s.in.stack.predicted_maxima().empty()) return std::nullopt;
  return format.floating.largest / s.in.stack.predicted_maximum();
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

/// By part: what its roundings lose, by place.
std::vector<std::span<const RunningMoments>> roundings_of(const InFormat& s) {
  const std::size_t places = places_of(s.in.stack.spec.model);
  std::vector<std::span<const RunningMoments>> all;
  for (std::size_t part = 0; part < part_names.size(); ++part) {
    all.push_back(std::span(s.format.variants.front().rounding).subspan(part * places, places));
  }
  return all;
}

/// The columns of formats other than f64.
Table<InFormat> rounding_table() {
  Table<std::span<const RunningMoments>> parts;
  const std::string on_part = on_format + " part place";
  add_averages(
      parts,
      {"rounding_sqnr", on_part, "dB", "SQNR of single roundings, mean over the tensors of a part, forward, plain"},
      {"rounding_sqnr_stderr", on_part, "dB", "its standard error over seeds"},
      [](const std::span<const RunningMoments>& moments) { return moments; });
  Table<InFormat> table;
  table
      .column_if_any(
          {"margin_predicted", on_format, "1",
           "largest number of the format over the largest predicted |x| of the stream and of sums before norm C (T18)"},
          margin_of)
      .rows("part", parts, roundings_of)
      .column({"weights_sqnr_predicted", on_format + " place", "dB", "the same of weights, predicted (T26)"},
              weights_sqnr);
  return table;
}

std::vector<InVariant> variants_in(const InFormat& s) {
  std::vector<InVariant> all;
  for (const Variant& variant : s.format.variants) all.push_back({s.in, variant});
  return all;
}

Table<InFormat> format_table() {
  Table<InFormat> table;
  table.part(verdict_table(), [](const InFormat& s) { return &s.format; })
      .part(rounding_table(), [](const InFormat& s) { return s.format.is_f64() ? nullptr : &s; });
  add_massive(table, "branch", "SQNR of modules' outputs, mean over sublayers: plain minus massive",
              &MassiveEffect::branch);
  add_massive(table, "stream", "SQNR of the stream behind the last sublayer: plain minus massive",
              &MassiveEffect::stream);
  table.rows("features", variant_table(), variants_in);
  return table;
}

std::string label_of(const Site& site) {
  return (site.pass == Pass::backward ? "grad " : "") + std::string(name_of(site.signal));
}

std::vector<InFormat> formats_in(const Stack& s) {
  std::vector<InFormat> all;
  for (const FormatResult& format : s.stack.formats) all.push_back({s, format});
  return all;
}

const Table<Stack>& stack_table() {
  static const Table<Stack> all = [] {
    Table<FormatsStack> predicted;
    const std::string on_depth = "stack depth";
    const auto curve_of = [](const FormatsStack& s) {
      return s.prediction.profile.find(Statistic::second_moment, Signal::x_out);
    };
    predicted
        .column({"second_moment_predicted", on_depth, "1", "mean square of the stream, predicted at this width (T25)"},
                [=](const FormatsStack& s) { return curve_of(s)->value; })
        .column({"second_moment_predicted_stderr", on_depth, "1", "its standard error"},
                [=](const FormatsStack& s) { return curve_of(s)->standard_error; })
        .column({"maximum_predicted", on_depth, "1",
                 "about the largest |x| of the stream, after norm C where there is one (T18)"},
                &FormatsStack::predicted_maxima);
    Table<Stack> table;
    table
        .column({"placement", "stack", "", "normalization placement (T1)"},
                [](const Stack& s) { return config::placement_label(s.stack.spec); })
        .column({"input", "stack", "", "what enters the stack"},
                [](const Stack& s) { return input_kind_names[static_cast<std::size_t>(s.stack.spec.input.kind)]; })
        .part(predicted, [=](const Stack& s) { return curve_of(s.stack) == nullptr ? nullptr : &s.stack; })
        .rows("format", format_table(), formats_in);
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "formats", 3,
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
  const std::vector<FormatResult>& formats = result.stacks.front().formats;
  for (std::size_t f = 0; f < formats.size(); ++f) builder.at("format", f).put("format", formats[f].name);
  builder.put("features", std::span(features_names).first(variants_of(config)));
  for (std::size_t i = 0; i < sites.size(); ++i) builder.at("site", i).put("site", label_of(sites[i]));
  builder.put("part", part_names);
  builder.count("place", longest, -1);
  builder.count("depth", longest - 1);
  for (std::size_t i = 0; i < result.stacks.size(); ++i) {
    stack_table().put({result.stacks[i], config, sites, massive_tests(result)}, builder.at("stack", i));
  }
  return builder.finish();
}

}  // namespace periscope::formats
