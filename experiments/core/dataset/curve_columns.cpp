#include "experiments/core/dataset/curve_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace periscope {
namespace {

/// q … down, the matrices that every layer has.
constexpr auto layer_weights = static_cast<std::size_t>(Weight::embedding);
constexpr std::array weight_statistics{Statistic::grad_sq, Statistic::log_grad_sq};

}  // namespace

std::size_t site_of(Signal signal) {
  return static_cast<std::size_t>(std::ranges::find(stream_signals, signal) - stream_signals.begin());
}

std::vector<DimensionSpec> curve_dimensions() {
  return {{"depth", "1", "sublayers passed; 0 is the stack's input"},
          {"other_depth", "1", "sublayers passed, second stream of a pair"},
          {"site", "", "place in the dataflow (T1)"},
          {"sublayer", "1", "sublayer; even: attention, odd: MLP"},
          {"rank", "1", "place in the order of magnitudes"},
          {"weight", "", "matrix of a layer"},
          {"layer", "1", "layer, attention and MLP"}};
}

void put_curve_coordinates(Columns& columns, std::size_t sublayers, std::size_t ranks, bool weights) {
  columns.count("depth", sublayers + 1);
  columns.count("other_depth", sublayers + 1);
  for (std::size_t s = 0; s < stream_signals.size(); ++s) columns.at("site", s).put("site", text_of(stream_signals[s]));
  columns.count("sublayer", sublayers);
  columns.count("rank", ranks, 1);
  if (!weights) return;
  columns.put("weight", std::vector(weight_names.begin(), weight_names.begin() + layer_weights));
  columns.count("layer", sublayers / 2);
}

std::vector<ColumnSpec> curve_columns(const std::string& leading, const std::string& json,
                                      const std::vector<CurveVersion>& versions) {
  struct Kind {
    std::string prefix, dimensions, json, words;
  };
  const std::vector<Kind> kinds{{"", "depth", "", "of the stream"},
                                {"r_out_", "depth", "sites/r_out/", "of ResiDual's second stream"},
                                {"site_", "site sublayer", "sites/{site}/", "at every site of every sublayer"}};
  std::vector<ColumnSpec> all;
  const auto add = [&](Statistic statistic, const Kind& kind, const std::string& path) {
    const std::string stem = kind.prefix + text_of(statistic);
    for (const CurveVersion& v : versions) {
      all.push_back({.name = stem + "_" + v.suffix,
                     .dimensions = leading + kind.dimensions,
                     .units = std::string(v.units.empty() ? units_of(statistic) : v.units),
                     .meaning = fmt::format("{} {}: {}", text_of(statistic), kind.words, v.meaning),
                     .json = path + v.suffix});
    }
    all.push_back(json_only(stem + "_imprecise", path + "imprecise", "entries less precise than wanted",
                            "files say it in theory_imprecise"));
    if (!kind.prefix.starts_with("weight")) {
      all.push_back(
          json_only(stem + "_place", path + "site", "place in the dataflow", "files have the dimension site"));
    }
  };
  for (std::size_t s = 0; s < statistic_facts.size(); ++s) {
    const auto statistic = static_cast<Statistic>(s);
    for (const Kind& kind : kinds) add(statistic, kind, json + kind.json + text_of(statistic) + "/");
  }
  for (const Statistic statistic : weight_statistics) {
    add(statistic, {"weight_", "weight layer", "", "of every matrix"},
        json + "weight_" + text_of(statistic) + "/{weight}/");
  }
  return all;
}

CurvePlace::CurvePlace(const Columns::Row& row, Statistic statistic, Signal signal)
    : stem_(text_of(statistic)), row_(row), copy_(row.at("site", site_of(signal), text_of(signal))) {
  if (signal == Signal::r_out) stem_ = "r_out_" + stem_;
  if (runs_over_depth(signal)) {
    copy_stem_ = "site_" + text_of(statistic);
    copy_ = copy_.for_files();
  } else {
    stem_ = "site_" + stem_;
    row_ = copy_;
  }
}

CurvePlace::CurvePlace(const Columns::Row& row, Statistic statistic, Weight weight)
    : stem_("weight_" + text_of(statistic)),
      row_(row.at("weight", static_cast<std::size_t>(weight), weight_names[static_cast<std::size_t>(weight)])),
      copy_(row) {}

void CurvePlace::put(const std::string& version, Columns::Json values) const {
  row_.put(stem_ + "_" + version, values);
  if (copy_stem_.empty() || !values.is_array() || values.empty() || version == "imprecise") return;
  values.erase(0);
  copy_.put(copy_stem_ + "_" + version, std::move(values));
}

}  // namespace periscope
