#include <algorithm>
#include <cmath>

#include "experiments/certify/certify.h"

namespace periscope {
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

/// The column of verdicts on classes in a run's arithmetic.
std::string certified_name(const std::string& prefix) { return prefix == "run_" ? "certified" : prefix + "certified"; }

/// In a run's own arithmetic. A class without a bound of its own is in files alone.
void put_run_classes(const Columns::Row& row, const std::string& prefix, const theory::Certificate& c,
                     const ModelSpec& m) {
  put_classes(row, prefix, c, [&](const Columns::Row& of_class, SignalClass kind, const SignalBound* worst) {
    const theory::Verdict v = theory::verdict(c, kind);
    const Columns::Row at = worst != nullptr ? of_class : of_class.for_files();
    at.put(certified_name(prefix), v.certified);
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
    c_.put("exceeded", r_.exceeded ? attack_json(*r_.exceeded) : Json());
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
    c_.put("excluded", tokens ? Json{"inputs that bypass the embedding table", "padded sequences"} : Json::array());
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
    put_run_classes(row, "run_", c, r_.spec.model);
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
      put_run_classes(row_of(c_.row(), c), "scaled_run_", c, h.run->model);
  }

  const CertifyResult& r_;
  const std::vector<NumberFormat>& formats_;
  Columns& c_;
  std::size_t places_;
};

/// The declarations, by the groups that `put_…` fill.
class Declarations {
 public:
  std::vector<ColumnSpec> take() {
    const std::string run = "{arithmetic}/{format}/";
    head();
    arithmetic("own_", "", "own_run/", "the runs that were measured and attacked");
    arithmetic("run_", "format", run, "the run that the verdict is for");
    bounds("", "", "exact/signals/[bound]/", "exact arithmetic (T17)");
    bounds("own_", "", "own_run/signals/[bound]/", "the arithmetic of what was measured (T24)");
    bounds("run_signal_", "format ", run + "signals/[bound]/", "the arithmetic of a run (T24)");
    exact_classes("", "exact/classes/{class}/", "");
    exact_classes("scaled_", "headroom/run/classes/{class}/", " of the scaled stack");
    run_classes("run_", run + "classes/{class}/", "");
    run_classes("scaled_run_", "headroom/run/" + run + "{class}/", " of the scaled stack");
    by_sublayer();
    verdicts(run);
    headroom();
    return std::move(all_);
  }

 private:
  void add(std::initializer_list<ColumnSpec> columns) { all_.insert(all_.end(), columns); }

  void head() {
    const std::string configured = "files have it in their configuration";
    add({{"model", "", "", "what the model is called", "model"},
         {"family", "", "", "of checkpoints; nothing for other weights", "family"},
         json_only("placement", "placement", "normalization placement (T1)", configured),
         json_only("layers", "layers", "L", configured),
         json_only("width", "width", "D", configured),
         {"input", "", "", "what may enter: tokens, or real vectors", "input"},
         {"input_maximum", "", "1", "largest entry of real vectors", "input_maximum"},
         json_only("excluded", "excluded", "inputs that are not covered", "words for people"),
         {"weights_sha256", "weights", "", "SHA-256 of the file, or of the weights as drawn",
          "weights_sha256/{weights}"},
         {"arithmetic", "", "", "that verdicts are for", "arithmetic"},
         {"length", "", "1", "longest input in tokens that is certified", "length"},
         {"seconds", "", "s", "that the certificates took, with reading or drawing the weights", "seconds"},
         {"measured_tokens", "", "1", "tokens that were measured", "measured_tokens"}});
  }

  void arithmetic(const std::string& prefix, const std::string& on, const std::string& path, const std::string& of) {
    add({{prefix + "arithmetic", on, "", "arithmetic of " + of, path + "arithmetic"},
         {prefix + "format", on, "", "stored format of " + of, path + "format"},
         {prefix + "accumulated", on, "", "format of sums of " + of, path + "accumulated"},
         {prefix + "length", on, "1", "tokens of a sequence; 0: any number", path + "length"},
         {prefix + "weights_rounded", on, "1", "1: weights are no numbers of the format", path + "weights_rounded"}});
  }

  void bounds(const std::string& prefix, const std::string& leading, const std::string& path, const std::string& in) {
    const std::string on = leading + "signal place";
    const std::string place = "files have the dimensions signal and place";
    add({json_only(prefix + "bound_signal", path + "signal", "signal", place),
         json_only(prefix + "bound_sublayer", path + "sublayer", "sublayer", place),
         {prefix + "bound_feature", on, "1", "feature of the bound in " + in, path + "feature"},
         json_only(prefix + "bound_class", path + "class", "class of the signal", "follows from the signal"),
         {prefix + "bound", on, "1", "largest magnitude that any input can cause in " + in, path + "bound"}});
    if (!leading.empty()) return;
    add({{prefix + "measured", on, "1", "largest magnitude measured", path + "measured"},
         {prefix + "bound_ratio", on, "1", "bound over measured", path + "ratio"}});
  }

  void classes(const std::string& prefix, const std::string& on, const std::string& path, const std::string& of) {
    add({{prefix + "class_largest", on, "1", "largest bound of a class" + of, path + "bound"},
         {prefix + "class_signal", on, "", "its signal", path + "at/signal"},
         {prefix + "class_sublayer", on, "1", "its sublayer", path + "at/sublayer"},
         {prefix + "class_feature", on, "1", "its feature", path + "at/feature"}});
  }

  void exact_classes(const std::string& prefix, const std::string& path, const std::string& of) {
    classes(prefix, "class", path, of + " in exact arithmetic");
    add({{prefix + "class_fits", "class format", "1", "1: the format holds it", path + "formats/{format}/fits"},
         {prefix + "class_headroom", "class format", "1", "largest number of the format over it",
          path + "formats/{format}/headroom"}});
  }

  void run_classes(const std::string& prefix, const std::string& path, const std::string& of) {
    classes(prefix, "format class", path, of + " in the arithmetic of a run (T24)");
    add({{certified_name(prefix), "format class", "1", "1: no input can overflow the format there; 0: not certified",
          path + "certified"},
         {prefix + "reason", "format class", "", "what stands against it", path + "reason"}});
  }

  void by_sublayer() {
    const std::string signals = "JSON has every signal's";
    add({{"class_bound", "class place", "1", "largest bound of a class of signals in exact arithmetic", "", signals},
         {"class_measured", "class place", "1", "largest magnitude measured in a class", "", signals},
         {"run_bound", "format class place", "1", "largest bound of a class in the arithmetic of a run (T24)", "",
          signals},
         {"stream_largest", "depth", "1", "largest bound of the stream x_out", "exact/stream/bound/[depth]"},
         {"stream_feature", "depth", "1", "its feature", "exact/stream/feature/[depth]"},
         {"stream_measured", "depth", "1", "largest magnitude measured in the stream", "exact/stream/measured/[depth]"},
         {"stream_bound", "depth feature", "1", "bound on every feature of the stream x_out", "",
          "a number per feature; JSON has the largest"}});
  }

  void verdicts(const std::string& run) {
    const std::string path = "verdicts/{format}/";
    add({json_only("verdict_arithmetic", path + "arithmetic", "that the verdict is for", "files: arithmetic"),
         {"format_largest", "format", "1", "largest finite number of the format", path + "largest"},
         {"stream_certified", "format", "1", "1: no input can overflow the residual stream", path + "stream"},
         {"everywhere_certified", "format", "1", "1: nor anything else", path + "everywhere"},
         {"stream_reason", "format", "", "what stands against the stream's certificate", path + "stream_reason"},
         {"everywhere_reason", "format", "", "what stands against the other", path + "everywhere_reason"}});
    for (const std::string scope : {"stream", "everywhere"}) {
      const std::string at = run + scope + "/";
      add({json_only(scope + "_holds", at + "certified", "the verdict", "files: " + scope + "_certified"),
           json_only(scope + "_why_not", at + "reason", "what stands against it", "files: " + scope + "_reason"),
           json_only(scope + "_first", at + "first", "the first place that may overflow", "files say it in words"),
           {scope + "_first_bound", "format", "1", "bound of the first place that may overflow", at + "bound"},
           {scope + "_first_limit", "format", "1", "what it may be", at + "limit"}});
    }
    add({{"attack_signal", "attack", "", "signal that was attacked", "attack/[attack]/signal"},
         {"attack_sublayer", "attack", "1", "its sublayer", "attack/[attack]/sublayer"},
         {"attack_feature", "attack", "1", "its feature", "attack/[attack]/feature"},
         {"attack_bound", "attack", "1", "its bound", "attack/[attack]/bound"},
         {"attack_reached", "attack", "1", "largest magnitude reached", "attack/[attack]/reached"},
         {"attack_ratio", "attack", "1", "reached over bound", "attack/[attack]/ratio"},
         json_only("exceeded", "exceeded", "a bound that a run passed: a bug of this program", "must not be")});
  }

  void headroom() {
    const std::string h = "headroom/";
    const std::string run = h + "run/";
    const std::string words = "words for people";
    add({{"headroom_possible", "", "1", "1: the stream can be scaled with the function kept", h + "possible"},
         json_only("headroom_gains_alone", h + "gains_alone", "whether gains alone do it", words),
         json_only("headroom_multiplied", h + "multiplied", "what c multiplies", words),
         json_only("headroom_divided", h + "divided", "what c divides", words),
         {"headroom_stream_bound", "", "1", "largest bound of what grows with c", h + "stream_bound"},
         {"headroom_stream_measured", "", "1", "largest magnitude measured of it", h + "stream_measured"},
         {"headroom_margin", "", "1", "how many times over what was measured must fit", h + "margin"},
         {"headroom_c_certified", "format", "1", "largest c that is certified", h + "formats/{format}/c_certified"},
         {"headroom_c_measured", "format", "1", "largest c with which what was measured fits, margin times over",
          h + "formats/{format}/c_measured"},
         {"headroom_k_certified", "format", "1", "largest factor of branches before norms B",
          h + "formats/{format}/k_certified"},
         {"scaled_c", "", "1", "c of the stack that was scaled and run", run + "c"},
         {"scaled_k", "", "1", "k of it", run + "k"},
         {"scaled_tokens", "", "1", "tokens of that run", run + "tokens"},
         {"logit_difference", "", "1", "largest change of a logit over the largest logit", run + "logit_difference"},
         {"logit_difference_without_eps", "", "1", "the same at eps = 0", run + "logit_difference_without_eps"},
         {"logit_difference_gains_alone", "", "1", "the same if only gains and the embedding are scaled",
          run + "logit_difference_gains_alone"}});
  }

  std::vector<ColumnSpec> all_;
};

}  // namespace

const Schema& certify_schema() {
  static const Schema schema("certify", 1,
                             {{"signal", "", "signal"},
                              {"class", "", "class of signals"},
                              {"place", "1", "sublayer; -1: before the first, 2L: after the last"},
                              {"depth", "1", "sublayers passed; 0 is the stack's input"},
                              {"feature"},
                              {"format", "", "number format"},
                              {"weights", "", "file of weights, or drawn"},
                              {"attack"}},
                             Declarations().take());
  return schema;
}

Columns certify_columns(const CertifyResult& result, const std::vector<NumberFormat>& formats,
                        const nlohmann::ordered_json& provenance) {
  Columns columns(certify_schema(), provenance);
  Writer(result, formats, columns).put();
  return columns;
}

}  // namespace periscope
