#include <algorithm>
#include <cmath>

#include "experiments/studies/certify/certify.h"

namespace periscope::certify {
namespace {

using Json = Columns::Json;
using Values = std::vector<double>;
using theory::SignalBound;
using theory::SignalClass;

std::string_view arithmetic_name(const theory::Certificate& c) {
  return arithmetic_names[static_cast<std::size_t>(c.arithmetic.kind)];
}

std::size_t index_of(const NumberFormat& format) {
  const auto* at = std::ranges::find(number_formats, format.name, &NumberFormat::name);
  return static_cast<std::size_t>(at - number_formats.begin());
}

/// The row of a format, which is its key in JSON, as is the certificate's arithmetic.
Columns::Row row_of(const Columns::Row& row, const theory::Certificate& c) {
  return row.at("arithmetic", 0, arithmetic_name(c))
      .at("format", index_of(c.arithmetic.stored), c.arithmetic.stored.name);
}

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

void put_arithmetic(const Columns::Row& row, const std::string& prefix, const theory::Certificate& c) {
  row.put(prefix + "arithmetic", arithmetic_name(c));
  row.put(prefix + "format", c.arithmetic.stored.name);
  row.put(prefix + "accumulated", c.arithmetic.accumulated.name);
  row.put(prefix + "length", c.longest);
  row.put(prefix + "weights_rounded", c.weights_rounded);
}

/// Every bound of a certificate, and beside it what was measured.
void put_bounds(const Columns::Row& row, const std::string& prefix, const theory::Certificate& c,
                const SignalMaxima* measured) {
  for (std::size_t k = 0; k < c.bounds.size(); ++k) {
    const SignalBound& b = c.bounds[k];
    const auto signal = std::ranges::find(theory::certified_signals, b.signal) - theory::certified_signals.begin();
    const Columns::Row at = row.at("bound", k)
                                .at("signal", static_cast<std::size_t>(signal))
                                .at("place", static_cast<std::size_t>(b.sublayer + 1));
    at.put(prefix + "bound_signal", name_of(b.signal));
    at.put(prefix + "bound_sublayer", b.sublayer);
    at.put(prefix + "bound_feature", b.channel);
    at.put(prefix + "bound_class", theory::signal_class_names[static_cast<std::size_t>(theory::class_of(b.signal))]);
    at.put(prefix + "bound", b.largest);
    if (measured == nullptr || measured->find(b.signal, b.sublayer) == nullptr) continue;
    const double largest = measured->largest(b.signal, b.sublayer);
    at.put(prefix + "measured", largest);
    at.put(prefix + "bound_ratio", b.largest / largest);
  }
}

/// The largest bound of every class and where it is: `more` puts what it means for formats.
template <class More>
void put_classes(const Columns::Row& row, const std::string& prefix, const theory::Certificate& c, const More& more) {
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const auto kind = static_cast<SignalClass>(k);
    const SignalBound* worst = c.worst(kind);
    const Columns::Row of_class = row.at("class", k, theory::signal_class_names[k]);
    if (worst != nullptr) {
      of_class.put(prefix + "class_largest", worst->largest);
      of_class.put(prefix + "class_signal", name_of(worst->signal));
      of_class.put(prefix + "class_sublayer", worst->sublayer);
      of_class.put(prefix + "class_feature", worst->channel);
    }
    more(of_class, kind, worst);
  }
}

/// In exact arithmetic, for all formats.
void put_exact_classes(const Columns::Row& row, const std::string& prefix, const theory::Certificate& c,
                       const std::vector<NumberFormat>& formats) {
  put_classes(row, prefix, c, [&](const Columns::Row& of_class, SignalClass, const SignalBound* worst) {
    if (worst == nullptr) return;
    for (const NumberFormat& f : formats) {
      const Columns::Row of_format = of_class.at("format", index_of(f), f.name);
      of_format.put(prefix + "class_fits", worst->largest <= f.largest);
      of_format.put(prefix + "class_headroom", f.largest / worst->largest);
    }
  });
}

/// In a run's own arithmetic. A class without a bound of its own is in files alone.
/// `verdict`: the column of the verdicts on classes.
void put_run_classes(const Columns::Row& row, const std::string& prefix, const std::string& verdict,
                     const theory::Certificate& c, const ModelSpec& m) {
  put_classes(row, prefix, c, [&](const Columns::Row& of_class, SignalClass kind, const SignalBound* worst) {
    const theory::Verdict v = theory::verdict(c, kind);
    const Columns::Row at = worst != nullptr ? of_class : of_class.for_files();
    at.put(verdict, v.certified);
    at.put(prefix + "reason", reason_of(v, m));
  });
}

class Writer {
 public:
  Writer(const CertifyResult& result, const std::vector<NumberFormat>& formats, Columns& columns)
      : r_(result), formats_(formats), c_(columns), places_(static_cast<std::size_t>(r_.spec.model.sublayers()) + 2) {}

  void put() const {
    coordinates();
    head();
    verdicts();
    exact();
    for (const theory::Certificate& c : r_.runs) run(c);
    of_classes();
    if (r_.measured) c_.put("measured_tokens", r_.tokens);
    if (r_.own) {
      put_arithmetic(c_.row(), "own_", *r_.own);
      put_bounds(c_.row(), "own_", *r_.own, measured());
    }
    for (std::size_t k = 0; k < r_.attacks.size(); ++k) {
      const AttackResult& a = r_.attacks[k];
      const Columns::Row row = c_.at("attack", k);
      row.put("attack_signal", name_of(a.place.signal));
      row.put("attack_sublayer", a.place.sublayer);
      row.put("attack_feature", a.place.channel);
      row.put("attack_bound", a.bound);
      row.put("attack_reached", a.reached);
      row.put("attack_ratio", a.ratio());
    }
    c_.put("exceeded", r_.check.exceeded ? attack_json(*r_.check.exceeded) : Json());
    c_.put("overflowed", r_.check.overflowed ? Json(place_text(*r_.check.overflowed, r_.spec.model)) : Json());
    headroom(r_.headroom);
  }

 private:
  [[nodiscard]] const SignalMaxima* measured() const { return r_.measured ? &*r_.measured : nullptr; }

  void coordinates() const {
    for (std::size_t s = 0; s < theory::certified_signals.size(); ++s) {
      c_.at("signal", s).put("signal", name_of(theory::certified_signals[s]));
    }
    c_.put("class", theory::signal_class_names);
    c_.count("place", places_, -1);
    c_.count("depth", places_ - 1);
    for (std::size_t f = 0; f < number_formats.size(); ++f) {
      c_.at("format", f).put("format", number_formats[f].name);
      c_.at("format", f).for_files().put("format_largest", number_formats[f].largest);
    }
  }

  void head() const {
    const ModelSpec& m = r_.spec.model;
    const bool tokens = r_.domain.tokens;
    c_.put("model", r_.model);
    c_.put("family", r_.family);
    c_.put("placement", m.placement.name);
    c_.put("layers", m.layers);
    c_.put("width", m.width);
    c_.put("input", tokens ? "tokens" : "real");
    c_.put("input_maximum", tokens ? Json() : Json(r_.domain.largest));
    c_.put("excluded", Json(not_covered(r_, formats_)));
    for (std::size_t k = 0; k < r_.weights.size(); ++k) {
      const auto& [name, hash] = r_.weights[k];
      c_.at("weights", k).put("weights", name);
      c_.at("weights", k, name).put("weights_sha256", hash);
    }
    c_.put("arithmetic", arithmetic_names[static_cast<std::size_t>(r_.arithmetic)]);
    c_.put("length", r_.runs.empty() ? Json() : Json(r_.runs.front().longest));
    c_.put("seconds", r_.seconds);
  }

  void verdicts() const {
    for (const NumberFormat& f : formats_) {
      const theory::Verdict stream = verdict_of(r_, {SignalClass::stream, f});
      const theory::Verdict all = verdict_of(r_, {std::nullopt, f});
      const Columns::Row row = c_.at("format", index_of(f), f.name);
      row.put("verdict_arithmetic", arithmetic_names[static_cast<std::size_t>(r_.arithmetic)]);
      row.put("format_largest", f.largest);
      row.put("stream_certified", stream.certified);
      row.put("everywhere_certified", all.certified);
      row.put("stream_reason", reason_of(stream, r_.spec.model));
      row.put("everywhere_reason", reason_of(all, r_.spec.model));
    }
  }

  void exact() const {
    put_exact_classes(c_.row(), "", r_.certificate, formats_);
    for (int l = -1; l < r_.spec.model.sublayers(); ++l) {
      const SignalBound* b = r_.certificate.find(Signal::x_out, l);
      const Columns::Row row = c_.at("depth", static_cast<std::size_t>(l + 1));
      row.put("stream_largest", b->largest);
      row.put("stream_feature", b->channel);
      if (r_.measured) row.put("stream_measured", r_.measured->largest(Signal::x_out, l));
      row.put("stream_bound", Values(b->magnitude.begin(), b->magnitude.end()));
    }
    put_bounds(c_.row(), "", r_.certificate, measured());
  }

  void run(const theory::Certificate& c) const {
    const Columns::Row row = row_of(c_.row(), c);
    put_arithmetic(row, "run_", c);
    const auto scope = [&](const std::string& name, std::optional<SignalClass> kind) {
      const theory::Verdict v = theory::verdict(c, kind);
      row.put(name + "_holds", v.certified);
      row.put(name + "_why_not", reason_of(v, r_.spec.model));
      row.put(name + "_first", v.certified ? Json() : place_json(*v.first));
      if (v.certified) return;
      row.put(name + "_first_bound", v.first->largest);
      row.put(name + "_first_limit", v.limit);
    };
    scope("stream", SignalClass::stream);
    scope("everywhere", std::nullopt);
    put_run_classes(row, "run_", "certified", c, r_.spec.model);
    put_bounds(row, "run_signal_", c, nullptr);
  }

  /// The largest bound of every class by sublayer, of exact arithmetic, measured, and of runs.
  void of_classes() const {
    const auto put = [this](const Columns::Row& row, const char* column, const theory::Certificate& c,
                            const auto& value_of) {
      std::vector<Values> largest(theory::signal_class_names.size(), Values(places_, std::nan("")));
      for (const SignalBound& b : c.bounds) {
        double& at =
            largest[static_cast<std::size_t>(theory::class_of(b.signal))][static_cast<std::size_t>(b.sublayer + 1)];
        at = std::isnan(at) ? value_of(b) : std::max(at, value_of(b));
      }
      for (std::size_t k = 0; k < largest.size(); ++k) row.at("class", k).put(column, largest[k]);
    };
    const auto bound = [](const SignalBound& b) { return b.largest; };
    put(c_.row(), "class_bound", r_.certificate, bound);
    if (r_.measured) {
      put(c_.row(), "class_measured", r_.certificate,
          [this](const SignalBound& b) { return r_.measured->largest(b.signal, b.sublayer); });
    }
    for (const theory::Certificate& c : r_.runs) put(row_of(c_.row(), c), "run_bound", c, bound);
    c_.mention("run_bound");
    c_.mention("certified");
  }

  void headroom(const Headroom& h) const {
    c_.put("headroom_possible", h.possible);
    if (!h.possible) return;
    c_.put("headroom_gains_alone", h.recipe.gains_alone);
    c_.put("headroom_multiplied", h.recipe.multiplied);
    c_.put("headroom_divided", h.recipe.divided);
    c_.put("headroom_stream_bound", h.stream_bound);
    c_.put("headroom_stream_measured", h.stream_measured);
    c_.put("headroom_margin", Headroom::margin);
    for (const FormatHeadroom& f : h.formats) {
      const Columns::Row row = c_.at("format", index_of(f.format), f.format.name);
      row.put("headroom_c_certified", f.stream);
      row.put("headroom_c_measured", f.measured);
      row.put("headroom_k_certified", f.branch);
    }
    if (!h.run) return;
    c_.put("scaled_c", h.run->scale.stream);
    c_.put("scaled_k", h.run->scale.branch);
    c_.put("scaled_tokens", h.run->tokens);
    c_.put("logit_difference", h.run->difference);
    c_.put("logit_difference_without_eps", h.run->without_eps);
    c_.put("logit_difference_gains_alone", h.run->gains_alone);
    put_exact_classes(c_.row(), "scaled_", h.run->certificate, formats_);
    for (const theory::Certificate& c : h.run->runs)
      put_run_classes(row_of(c_.row(), c), "scaled_run_", "scaled_run_certified", c, h.run->model);
  }

  const CertifyResult& r_;
  const std::vector<NumberFormat>& formats_;
  Columns& c_;
  std::size_t places_;
};

}  // namespace

Columns columns(const CertifyResult& result, const std::vector<NumberFormat>& formats,
                const nlohmann::ordered_json& provenance) {
  Columns columns(schema(), provenance);
  Writer(result, formats, columns).put();
  return columns;
}

}  // namespace periscope::certify
