#include <cmath>

#include "experiments/certify/certify.h"

namespace periscope {

using Json = nlohmann::ordered_json;
using theory::SignalBound;
using theory::SignalClass;

namespace {

std::string_view name_of(theory::Signal signal) { return theory::signal_names[static_cast<std::size_t>(signal)]; }

Json place_json(const SignalBound& b) {
  return {{"signal", name_of(b.signal)}, {"sublayer", b.sublayer}, {"feature", b.channel}};
}

Json attack_json(const AttackResult& a) {
  return {{"signal", name_of(a.place.signal)},
          {"sublayer", a.place.sublayer},
          {"feature", a.place.channel},
          {"bound", a.bound},
          {"reached", a.reached},
          {"ratio", a.ratio()}};
}

Json classes_json(const theory::Certificate& certificate, const std::vector<NumberFormat>& formats) {
  Json classes = Json::object();
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const SignalBound* worst = certificate.worst(static_cast<SignalClass>(k));
    if (worst == nullptr) continue;
    Json& entry = classes[std::string(theory::signal_class_names[k])];
    entry = {{"bound", worst->largest}, {"at", place_json(*worst)}};
    for (const NumberFormat& f : formats) {
      entry["formats"][std::string(f.name)] = {{"certified", worst->largest <= f.largest},
                                               {"headroom", f.largest / worst->largest}};
    }
  }
  return classes;
}

Json bounds_json(const CertifyResult& r) {
  Json all = Json::array();
  for (const SignalBound& b : r.certificate.bounds) {
    Json one = place_json(b);
    one["class"] = theory::signal_class_names[static_cast<std::size_t>(theory::class_of(b.signal))];
    one["bound"] = b.largest;
    if (r.measured) {
      const double measured = r.measured->largest(b.signal, b.sublayer);
      one["measured"] = measured;
      one["ratio"] = b.largest / measured;
    }
    all.push_back(one);
  }
  return all;
}

Json headroom_json(const Headroom& h, const std::vector<NumberFormat>& formats) {
  if (!h.possible) return {{"possible", false}};
  Json json{{"possible", true},
            {"gains_alone", h.recipe.gains_alone},
            {"multiplied", h.recipe.multiplied},
            {"divided", h.recipe.divided},
            {"stream_bound", h.stream_bound},
            {"stream_measured", h.stream_measured},
            {"margin", Headroom::margin}};
  for (const FormatHeadroom& f : h.formats) {
    json["formats"][std::string(f.format.name)] = {
        {"c_certified", f.stream}, {"c_measured", f.measured}, {"k_certified", f.branch}};
  }
  if (!h.run) return json;
  const ScaledRun& run = *h.run;
  json["run"] = {{"c", run.scale.stream},
                 {"k", run.scale.branch},
                 {"tokens", run.tokens},
                 {"logit_difference", run.difference},
                 {"logit_difference_without_eps", run.without_eps},
                 {"logit_difference_gains_alone", run.gains_alone},
                 {"classes", classes_json(run.certificate, formats)}};
  return json;
}

/// The stream at depths 0 … 2L.
Json stream_json(const CertifyResult& r) {
  Json json{{"bound", Json::array()}, {"feature", Json::array()}};
  for (int l = -1; l < r.spec.model.sublayers(); ++l) {
    const SignalBound* b = r.certificate.find(theory::Signal::x_out, l);
    json["bound"].push_back(b->largest);
    json["feature"].push_back(b->channel);
    if (r.measured) json["measured"].push_back(r.measured->largest(theory::Signal::x_out, l));
  }
  return json;
}

}  // namespace

Json certify_json(const CertifyResult& r, const std::vector<NumberFormat>& formats) {
  const ModelSpec& m = r.spec.model;
  Json json{{"model", r.model},
            {"family", r.family},
            {"placement", m.placement.name},
            {"layers", m.layers},
            {"width", m.width},
            {"input", r.domain.tokens ? "tokens" : "real"},
            {"input_maximum", r.domain.tokens ? Json() : Json(r.domain.largest)},
            {"seconds", r.seconds},
            {"classes", classes_json(r.certificate, formats)}};
  for (const NumberFormat& f : formats) {
    json["verdicts"][std::string(f.name)] = {{"largest", f.largest},
                                             {"stream", is_certified(r.certificate, {SignalClass::stream, f})},
                                             {"everywhere", is_certified(r.certificate, {std::nullopt, f})}};
  }
  json["stream"] = stream_json(r);
  json["signals"] = bounds_json(r);
  if (r.measured) json["measured_tokens"] = r.tokens;
  if (!r.attacks.empty()) {
    for (const AttackResult& a : r.attacks) json["attack"].push_back(attack_json(a));
  }
  json["exceeded"] = r.exceeded ? attack_json(*r.exceeded) : Json();
  json["headroom"] = headroom_json(r.headroom, formats);
  return json;
}

}  // namespace periscope
