#include "experiments/studies/propagate/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/mapped.h"

namespace periscope::propagate {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Formats whose margins the table shows.
constexpr std::array<std::string_view, 3> shown_formats{"fp16", "bf16", "fp8_e4m3"};

/// Whether the stream overflows at some depth.
bool overflows(const Profile& profile) {
  const Curve* stream = profile.find(Statistic::maximum, Signal::x_out);
  return stream != nullptr && std::ranges::any_of(stream->value, [](double x) { return std::isnan(x); });
}

void add_largest(const Profile& profile, Signal signal, std::string_view name, Summary& s) {
  const Curve* curve = profile.find(Statistic::maximum, signal);
  for (std::size_t depth = 0; curve != nullptr && depth < curve->value.size(); ++depth) {
    const double value = curve->value[depth];
    if (std::isnan(value) || value <= s.largest) continue;  // a comparison with NaN is false
    s.largest = value;
    s.largest_at = fmt::format("{}[{}]", name, depth);
  }
}

double bits_lost(const Profile& profile) {
  const Curve* curve = profile.find(Statistic::branch_ratio, Signal::B_out);
  double bits = nan;
  for (std::size_t l = 0; curve != nullptr && l < curve->value.size(); ++l) {
    const double ratio = curve->value[l];
    if (!std::isnan(ratio)) bits = std::fmax(bits, std::fmax(0.0, -std::log2(ratio)));
  }
  return bits;
}

std::string ratio(double value) { return dataset::number(value, "{:.3g}"); }

/// Returns the keys in which the stacks differ, a row per key.
std::string differences(const std::vector<stacks::StackResult>& results) {
  std::vector<std::string> titles{"keys that differ"};
  std::vector<nlohmann::ordered_json> all;
  for (const stacks::StackResult& r : results) {
    if (r.spec.input.kind != results.front().spec.input.kind) continue;
    titles.push_back(config::placement_label(r.spec));
    all.push_back(nlohmann::ordered_json::parse(r.spec.settings));
  }
  dataset::TextTable table(titles);
  for (const auto& [key, unused] : all.front().items()) {
    std::vector<std::string> row{key};
    for (const auto& stack : all) {
      const auto& value = stack[key];
      row.push_back(value.is_null()           ? "–"
                    : value.is_number_float() ? dataset::number(value.get<double>())
                                              : config::plain_text(value));
    }
    table.add(std::move(row));
  }
  return table.text();
}

}  // namespace

Summary summary_of(const Profile& profile) {
  Summary s;
  const Curve* variance = profile.find(Statistic::variance, Signal::x_out);
  s.variance = variance == nullptr ? nan : variance->value.back();
  const Curve* gradient = profile.find(Statistic::log_grad_sq, Signal::x_out);
  s.gradient_ratio = gradient == nullptr ? nan : std::exp((gradient->value.front() - gradient->value.back()) / 2.0);
  s.largest = nan;
  if (overflows(profile)) {
    s.largest_at = "overflow";
  } else {
    add_largest(profile, Signal::x_out, "x", s);
    add_largest(profile, Signal::sum, "sum", s);
  }
  s.bits_lost = bits_lost(profile);
  for (std::size_t i = 0; i < s.margins.size(); ++i) s.margins[i] = number_formats[i].largest / s.largest;
  return s;
}

dataset::Table<Summary> summary_table(const std::string& version) {
  const std::string on = "input placement";
  dataset::Table<Summary> table;
  table
      .column({"gradient_ratio_" + version, on, "1",
               "rms over tokens of the loss's gradient with respect to the stream, at the input over at the top"},
              &Summary::gradient_ratio)
      .column({"largest_" + version, on, "1",
               "largest |x| over all tokens, features and depths, of the stream and of sums before norm C"},
              &Summary::largest)
      .column({"largest_at_" + version, on, "", "signal and depth of largest_" + version}, &Summary::largest_at)
      .column({"bits_lost_" + version, on, "1",
               "bits that the smallest branch loses in its sum: log2 of rms(alpha x)/rms(beta b), largest over "
               "sublayers, at least 0"},
              &Summary::bits_lost)
      .column({"format_margin_" + version, on + " format", "1", "a format's largest number over largest_" + version},
              &Summary::margins);
  return table;
}

std::string comparison(const std::vector<stacks::StackResult>& results) {
  const InputKind kind = results.front().spec.input.kind;
  const bool one_kind = std::ranges::all_of(results, [&](const auto& r) { return r.spec.input.kind == kind; });
  std::vector<std::string> titles{"stack", "", ">Var(x) at top", ">‖∂loss/∂x‖ 0 / top", ">largest |x|", "of"};
  for (const std::string_view format : shown_formats) titles.push_back(fmt::format(">{}", format));
  titles.emplace_back(">bits lost");
  dataset::TextTable table(titles);
  const auto add = [&](const stacks::StackResult& r, const char* version, const Profile& profile) {
    const Summary s = summary_of(profile);
    const Curve* variance = profile.find(Statistic::variance, Signal::x_out);
    std::vector<std::string> row{config::placement_label(r.spec),
                                 one_kind ? version : fmt::format("{}, {}", name_of(r.spec.input.kind), version),
                                 variance == nullptr || variance->standard_error.empty()
                                     ? dataset::number(s.variance)
                                     : dataset::with_error(s.variance, variance->standard_error.back()),
                                 ratio(s.gradient_ratio),
                                 ratio(s.largest),
                                 s.largest_at};
    for (const std::string_view format : shown_formats) {
      const auto i = std::ranges::find(number_formats, format, &NumberFormat::name) - number_formats.begin();
      row.push_back(ratio(s.margins[static_cast<std::size_t>(i)]));
    }
    row.push_back(dataset::number(s.bits_lost, "{:.1f}"));
    table.add(std::move(row));
  };
  for (const stacks::StackResult& r : results) {
    add(r, "predicted", r.prediction.profile);
    if (!r.prediction.unsupported.empty()) table.add_note("", "unsupported: " + r.prediction.unsupported);
    if (r.measurement) add(r, "measured", r.measurement->profile);
  }
  return table.text() +
         "Var(x): over features, mean over tokens; ‖∂loss/∂x‖: rms over tokens, at the input over at the top (needs "
         "--backward); largest |x|: of the stream and of sums before norm C, all tokens and features; fp16 to "
         "fp8_e4m3: the format's largest number over largest |x|; bits lost: of the smallest branch relative to the "
         "stream, when "
         "both are added.\n\n" +
         differences(results);
}

}  // namespace periscope::propagate
