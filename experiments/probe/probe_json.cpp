#include <fmt/format.h>

#include <cmath>

#include "experiments/probe/probe.h"
#include "sim/numerics/number_format.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

Json curve_json(const Curve& measured, const Curve* initial) {
  Json json{{"measured", measured.value}};
  if (initial != nullptr) {
    json["at_init"] = initial->value;
    json["at_init_stderr"] = initial->standard_error;
  }
  return json;
}

/// Curves at x_out under the statistic's name, the others under "sites", as in the result of propagate.
void add_curves(Json& json, const Profile& measured, const Profile& initial) {
  Json sites = Json::object();
  for (const auto& [key, curve] : measured.curves) {
    const auto& [statistic, site] = key;
    const std::string name(statistic_names[static_cast<std::size_t>(statistic)]);
    const std::string site_name(name_of(site));
    Json& slot = site == Signal::x_out ? json[name] : sites[site_name][name];
    slot = {{"site", site_name}};
    slot.update(curve_json(curve, initial.find(statistic, site)));
  }
  for (const auto& [key, curve] : measured.weight_curves) {
    const auto& [statistic, weight] = key;
    json[fmt::format("weight_{}", statistic_names[static_cast<std::size_t>(statistic)])]
        [std::string(weight_names[static_cast<std::size_t>(weight)])] =
            curve_json(curve, initial.find(statistic, weight));
  }
  json["sites"] = sites;
}

template <class Part>
Json by_sublayer(const std::vector<Growth>& growth, Part Growth::*part) {
  Json values = Json::array();
  for (const Growth& g : growth) values.push_back(g.*part);
  return values;
}

Json growth_json(const ModelReading& r) {
  Json cross_over_branch = Json::array();
  for (const Growth& g : r.growth) cross_over_branch.push_back(g.cross / g.branch);
  return {{"stream", by_sublayer(r.growth, &Growth::stream)}, {"branch", by_sublayer(r.growth, &Growth::branch)},
          {"cross", by_sublayer(r.growth, &Growth::cross)},   {"sum", by_sublayer(r.growth, &Growth::sum)},
          {"cross_over_branch", cross_over_branch},           {"residual", by_sublayer(r.growth, &Growth::residual)},
          {"violated", violates_growth_identity(r)}};
}

Json massive_json(const ProbeResult& r) {
  Json depths = Json::array();
  for (const StreamExtremes& e : r.measured.extremes) {
    Json top = Json::array();
    for (const Entry& entry : e.top) {
      const int id = r.input.ids[static_cast<std::size_t>(entry.row)];
      Json one{{"token", entry.row}, {"id", id}};
      if (r.input.tokenizer != nullptr) one["text"] = visible(r.input.tokenizer->piece(id));
      one["feature"] = entry.col;
      one["value"] = entry.value;
      one["over_median"] = std::abs(entry.value) / e.median;
      one["massive"] = is_massive(entry, e.median);
      top.push_back(one);
    }
    depths.push_back({{"median", e.median}, {"top", top}});
  }
  return depths;
}

Json margins_json(const ModelReading& r) {
  const std::vector<SignalPeaks> maxima = signal_peaks(r);
  Json formats = Json::object();
  for (const NumberFormat& format : number_formats) {
    Json signals = Json::object();
    for (const SignalPeaks& signal : maxima) {
      for (const double largest : signal.values) signals[signal.name].push_back(format.largest / largest);
    }
    const Margin m = smallest_margin(maxima, format.largest);
    formats[std::string(format.name)] = {{"largest", format.largest},
                                         {"smallest", {{"margin", m.value}, {"signal", m.signal}, {"index", m.index}}},
                                         {"signals", signals}};
  }
  return formats;
}

}  // namespace

Json probe_json(const ProbeResult& r) {
  const ModelSpec& m = r.at_init.model;
  Json json{{"model", r.model},
            {"family", r.family},
            {"placement", resolved_json(r.at_init)["model"]["placement"]},
            {"layers", m.layers},
            {"width", m.width},
            {"dtype", name_of(r.dtype)},
            {"tokenizer", r.input.tokenizer_name},
            {"tokens", r.input.ids},
            {"labels", r.input.labels},
            {"loss", r.measured.loss},
            {"perplexity", std::exp(r.measured.loss)},
            {"token_loss", r.measured.token_losses}};
  add_curves(json, r.measured.reading.profile, r.initial.profile);
  json["growth"] = growth_json(r.measured);
  json["branch_from_gains"] = r.measured.branch_from_gains;
  json["massive"] = massive_json(r);
  json["margins"] = margins_json(r.measured);
  json["init"] = resolved_json(r.at_init)["init"];
  json["init"]["table_second_moment"] = r.at_init.input.second_moment;
  if (!r.initial.refusal.empty()) json["theory_refused"] = r.initial.refusal;
  if (!r.initial.gradient_refusal.empty()) json["gradient_theory_refused"] = r.initial.gradient_refusal;
  if (diverged(r.measured)) json["diverged_at"] = r.measured.reading.diverged_at;
  json["notes"] = r.notes;
  return json;
}

}  // namespace periscope
