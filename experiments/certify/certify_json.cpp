#include <cmath>

#include "experiments/certify/certify.h"

namespace periscope {

using Json = nlohmann::ordered_json;
using theory::SignalBound;
using theory::SignalClass;

namespace {

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

/// Largest bound of every class; with the verdict of a run's own arithmetic.
Json run_classes_json(const theory::Certificate& certificate, const ModelSpec& m) {
  Json classes = Json::object();
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const auto kind = static_cast<SignalClass>(k);
    const SignalBound* worst = certificate.worst(kind);
    if (worst == nullptr) continue;
    const theory::Verdict v = theory::verdict(certificate, kind);
    classes[std::string(theory::signal_class_names[k])] = {
        {"bound", worst->largest}, {"at", place_json(*worst)}, {"certified", v.certified}, {"reason", reason_of(v, m)}};
  }
  return classes;
}

/// The same of exact arithmetic, for all formats.
Json exact_classes_json(const theory::Certificate& certificate, const std::vector<NumberFormat>& formats) {
  Json classes = Json::object();
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const SignalBound* worst = certificate.worst(static_cast<SignalClass>(k));
    if (worst == nullptr) continue;
    Json& entry = classes[std::string(theory::signal_class_names[k])];
    entry = {{"bound", worst->largest}, {"at", place_json(*worst)}};
    for (const NumberFormat& f : formats) {
      entry["formats"][std::string(f.name)] = {{"fits", worst->largest <= f.largest},
                                               {"headroom", f.largest / worst->largest}};
    }
  }
  return classes;
}

Json bounds_json(const theory::Certificate& certificate, const SignalMaxima* measured) {
  Json all = Json::array();
  for (const SignalBound& b : certificate.bounds) {
    Json one = place_json(b);
    one["class"] = theory::signal_class_names[static_cast<std::size_t>(theory::class_of(b.signal))];
    one["bound"] = b.largest;
    if (measured != nullptr && measured->find(b.signal, b.sublayer) != nullptr) {
      const double largest = measured->largest(b.signal, b.sublayer);
      one["measured"] = largest;
      one["ratio"] = b.largest / largest;
    }
    all.push_back(one);
  }
  return all;
}

Json arithmetic_json(const theory::Certificate& c) {
  return {{"arithmetic", arithmetic_names[static_cast<std::size_t>(c.arithmetic.kind)]},
          {"format", c.arithmetic.stored.name},
          {"accumulated", c.arithmetic.accumulated.name},
          {"length", c.longest},
          {"weights_rounded", c.weights_rounded}};
}

Json verdict_json(const theory::Verdict& v, const ModelSpec& m) {
  Json json{{"certified", v.certified}, {"reason", reason_of(v, m)}};
  json["first"] = v.certified ? Json() : place_json(*v.first);
  if (!v.certified) json["bound"] = v.first->largest;
  if (!v.certified) json["limit"] = v.limit;
  return json;
}

Json run_json(const theory::Certificate& c, const ModelSpec& m) {
  Json json = arithmetic_json(c);
  json["stream"] = verdict_json(theory::verdict(c, SignalClass::stream), m);
  json["everywhere"] = verdict_json(theory::verdict(c, std::nullopt), m);
  json["classes"] = run_classes_json(c, m);
  json["signals"] = bounds_json(c, nullptr);
  return json;
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
                 {"classes", exact_classes_json(run.certificate, formats)}};
  for (const theory::Certificate& c : run.runs) {
    json["run"][std::string(arithmetic_names[static_cast<std::size_t>(c.arithmetic.kind)])]
        [std::string(c.arithmetic.stored.name)] = run_classes_json(c, run.model);
  }
  return json;
}

/// The stream at depths 0 … 2L.
Json stream_json(const CertifyResult& r) {
  Json json{{"bound", Json::array()}, {"feature", Json::array()}};
  for (int l = -1; l < r.spec.model.sublayers(); ++l) {
    const SignalBound* b = r.certificate.find(Signal::x_out, l);
    json["bound"].push_back(b->largest);
    json["feature"].push_back(b->channel);
    if (r.measured) json["measured"].push_back(r.measured->largest(Signal::x_out, l));
  }
  return json;
}

}  // namespace

Json certify_json(const CertifyResult& r, const std::vector<NumberFormat>& formats) {
  const ModelSpec& m = r.spec.model;
  const std::string arithmetic(arithmetic_names[static_cast<std::size_t>(r.arithmetic)]);
  Json json{{"model", r.model},
            {"family", r.family},
            {"placement", m.placement.name},
            {"layers", m.layers},
            {"width", m.width},
            {"input", r.domain.tokens ? "tokens" : "real"},
            {"input_maximum", r.domain.tokens ? Json() : Json(r.domain.largest)},
            {"excluded",
             r.domain.tokens ? Json{"inputs that bypass the embedding table", "padded sequences"} : Json::array()},
            {"weights_sha256", Json::object()},
            {"arithmetic", arithmetic},
            {"length", r.runs.empty() ? Json() : Json(r.runs.front().longest)},
            {"seconds", r.seconds}};
  for (const auto& [name, hash] : r.weights) json["weights_sha256"][name] = hash;
  for (const NumberFormat& f : formats) {
    const theory::Verdict stream = verdict_of(r, {SignalClass::stream, f});
    const theory::Verdict all = verdict_of(r, {std::nullopt, f});
    json["verdicts"][std::string(f.name)] = {{"arithmetic", arithmetic},
                                             {"largest", f.largest},
                                             {"stream", stream.certified},
                                             {"everywhere", all.certified},
                                             {"stream_reason", reason_of(stream, m)},
                                             {"everywhere_reason", reason_of(all, m)}};
  }
  json["exact"] = {{"classes", exact_classes_json(r.certificate, formats)},
                   {"stream", stream_json(r)},
                   {"signals", bounds_json(r.certificate, r.measured ? &*r.measured : nullptr)}};
  for (const theory::Certificate& c : r.runs) json[arithmetic][std::string(c.arithmetic.stored.name)] = run_json(c, m);
  if (r.measured) json["measured_tokens"] = r.tokens;
  if (r.own) {
    json["own_run"] = arithmetic_json(*r.own);
    json["own_run"]["signals"] = bounds_json(*r.own, r.measured ? &*r.measured : nullptr);
  }
  if (!r.attacks.empty()) {
    for (const AttackResult& a : r.attacks) json["attack"].push_back(attack_json(a));
  }
  json["exceeded"] = r.exceeded ? attack_json(*r.exceeded) : Json();
  json["headroom"] = headroom_json(r.headroom, formats);
  return json;
}

}  // namespace periscope
