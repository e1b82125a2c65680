#include <algorithm>
#include <cmath>

#include "experiments/engine/result/table.h"
#include "experiments/studies/certify/certify.h"

namespace periscope::certify {
namespace {

using dataset::Table;
using dataset::Type;
using theory::Certificate;
using theory::SignalBound;
using theory::SignalClass;

template <class T>
using InFormats = std::vector<std::pair<std::size_t, T>>;  ///< by the position on the dimension format

std::size_t position_of(const NumberFormat& format) {
  const auto* at = std::ranges::find(number_formats, format.name, &NumberFormat::name);
  return static_cast<std::size_t>(at - number_formats.begin());
}

enum class Rows { signals, classes };

/// Returns the largest bound of every row at every place, or the largest value that was measured there, row-major; NaN
/// where there is none.
std::vector<double> by_place(const Certificate& c, const ModelSpec& model, Rows rows,
                             const SignalMaxima* measured = nullptr) {
  const auto places = static_cast<std::size_t>(model.sublayers()) + 2;
  const std::size_t count =
      rows == Rows::signals ? theory::certified_signals.size() : theory::signal_class_names.size();
  std::vector<double> all(count * places, std::nan(""));
  for (const SignalBound& b : c.bounds) {
    const auto row = rows == Rows::signals
                         ? std::ranges::find(theory::certified_signals, b.signal) - theory::certified_signals.begin()
                         : static_cast<std::ptrdiff_t>(theory::class_of(b.signal));
    double& at = all[static_cast<std::size_t>(row) * places + static_cast<std::size_t>(b.sublayer + 1)];
    const double value = measured == nullptr ? b.largest : measured->largest(b.signal, b.sublayer);
    at = std::isnan(at) ? value : std::max(at, value);
  }
  return all;
}

/// Returns the column function of what was measured, compared with the bounds of exact arithmetic.
auto measured_by(Rows rows) {
  return [rows](const CertifyResult& r) {
    return r.measured ? std::optional(by_place(r.certificates.exact, r.spec.model, rows, &*r.measured)) : std::nullopt;
  };
}

auto bound_by(Rows rows) {
  return [rows](const CertifyResult& r) { return by_place(r.certificates.exact, r.spec.model, rows); };
}

Table<CertifyResult> model_table() {
  using R = CertifyResult;
  Table<R> table;
  table.column({"model", "", "", "what the model is called"}, &R::model)
      .column({"family", "", "", "of checkpoints; nothing for other weights"}, &R::family)
      .column({"input", "", "", "what may enter: tokens, or real vectors"},
              [](const R& r) { return r.domain.tokens ? "tokens" : "real"; })
      .column_if_any({"input_maximum", "", "1", "largest entry of real vectors"},
                     [](const R& r) { return r.domain.tokens ? std::nullopt : std::optional(r.domain.largest); })
      .column({"weights_sha256", "weights", "", "SHA-256 of the file, or of the weights as drawn"},
              [](const R& r) {
                std::vector<std::string> hashes;
                for (const stacks::NamedHash& w : r.weights) hashes.push_back(w.second);
                return hashes;
              })
      .column({"arithmetic", "", "", "that verdicts are for"},
              [](const R& r) { return arithmetic_names[static_cast<std::size_t>(r.arithmetic)]; })
      .column_if_any({"length", "", "1", "longest input in tokens that is certified"},
                     [](const R& r) {
                       const auto& runs = r.certificates.runs;
                       return runs.empty() ? std::nullopt : std::optional(runs.front().longest);
                     })
      .column_if_any({"measured_tokens", "", "1", "tokens that were measured"},
                     [](const R& r) { return r.measured ? std::optional(r.tokens) : std::nullopt; })
      .column({"excluded", "exclusion", "", "inputs and runs that are not covered"}, not_covered);
  return table;
}

/// Returns the columns of exact arithmetic, and of what was measured.
Table<CertifyResult> bounds_table() {
  using R = CertifyResult;
  Table<SignalBound> stream;
  stream.column({"stream_bound", "depth feature", "1", "bound on every feature of the stream x_out"},
                [](const SignalBound& b) { return std::vector<double>(b.magnitude.begin(), b.magnitude.end()); });
  Table<R> table;
  table
      .column({"signal_class", "signal", "", "class of the signal"},
              [](const R& /*r*/) {
                std::vector<std::string_view> names;
                for (const Signal s : theory::certified_signals) {
                  names.push_back(theory::signal_class_names[static_cast<std::size_t>(theory::class_of(s))]);
                }
                return names;
              })
      .column({"bound", "signal place", "1", "largest magnitude that any input can cause in exact arithmetic (T17)"},
              bound_by(Rows::signals))
      .column_if_any({"measured", "signal place", "1", "largest magnitude measured"}, measured_by(Rows::signals))
      .column({"class_bound", "class place", "1", "largest bound of a class of signals in exact arithmetic"},
              bound_by(Rows::classes))
      .column_if_any({"class_measured", "class place", "1", "largest magnitude measured in a class"},
                     measured_by(Rows::classes))
      .rows("depth", stream,
            [](const R& r) {
              std::vector<SignalBound> all;
              for (int s = -1; s < r.spec.model.steps(); ++s)
                all.push_back(*r.certificates.exact.find(Signal::x_out, s));
              return all;
            })
      .column_if_any({"own_bound", "signal place", "1",
                      "largest magnitude that any input can cause in the arithmetic of what was measured (T24)"},
                     [](const R& r) {
                       return r.own ? std::optional(by_place(*r.own, r.spec.model, Rows::signals)) : std::nullopt;
                     });
  return table;
}

/// A format that is judged, and the certificate that it is judged by.
struct Judged {
  const NumberFormat& format;
  const Certificate& certificate;
  const ModelSpec& model;

  [[nodiscard]] theory::Verdict verdict(std::optional<SignalClass> kind) const {
    return verdict_of(certificate, {kind, format});
  }
  [[nodiscard]] std::string reason(std::optional<SignalClass> kind) const { return reason_of(verdict(kind), model); }
  /// Returns `value` of every class of signals.
  template <class F>
  auto on_classes(F value) const {
    std::vector<decltype(value(SignalClass{}))> all;
    for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k)
      all.push_back(value(static_cast<SignalClass>(k)));
    return all;
  }
  [[nodiscard]] std::vector<bool> certified() const {
    return on_classes([&](SignalClass kind) { return verdict(kind).certified; });
  }
};

InFormats<Judged> judged(const CertifyResult& r) {
  InFormats<Judged> all;
  for (const NumberFormat& f : r.formats) all.push_back({position_of(f), {f, r.certificates.in(f), r.spec.model}});
  return all;
}

InFormats<Judged> scaled_runs(const CertifyResult& r) {
  InFormats<Judged> all;
  if (!r.headroom.run) return all;
  for (const Certificate& c : r.headroom.run->certificates.runs) {
    all.push_back({position_of(c.arithmetic.stored), {c.arithmetic.stored, c, r.headroom.run->model}});
  }
  return all;
}

/// Returns the columns of a format in which runs are certified.
Table<Judged> run_table() {
  using J = Judged;
  const std::string on_class = "format class";
  Table<J> table;
  table
      .column({"run_weights_rounded", "format", "1", "1: weights are no numbers of the format"},
              [](const J& j) { return j.certificate.weights_rounded; })
      .column({"certified", on_class, "1", "1: no input can overflow the format there; 0: not certified"},
              &J::certified)
      .column({"certified_reason", on_class, "", "what stands against it"},
              [](const J& j) { return j.on_classes([&](SignalClass kind) { return j.reason(kind); }); })
      .column({"run_bound", "format class place", "1", "largest bound of a class in the arithmetic of a run (T24)"},
              [](const J& j) { return by_place(j.certificate, j.model, Rows::classes); })
      .column({"run_signal_bound", "format signal place", "1",
               "largest magnitude that any input can cause in the arithmetic of a run (T24)"},
              [](const J& j) { return by_place(j.certificate, j.model, Rows::signals); });
  return table;
}

Table<Judged> verdict_table() {
  using J = Judged;
  Table<J> table;
  table
      .column({"stream_certified", "format", "1", "1: no input can overflow the residual stream"},
              [](const J& j) { return j.verdict(SignalClass::stream).certified; })
      .column({"everywhere_certified", "format", "1", "1: nor anything else"},
              [](const J& j) { return j.verdict(std::nullopt).certified; })
      .column({"stream_reason", "format", "", "what stands against the stream's certificate"},
              [](const J& j) { return j.reason(SignalClass::stream); })
      .column({"everywhere_reason", "format", "", "what stands against the other"},
              [](const J& j) { return j.reason(std::nullopt); })
      .part(run_table(), [](const J& j) { return j.certificate.arithmetic.kind == Arithmetic::exact ? nullptr : &j; });
  return table;
}

/// Returns the columns of an attack's result; `signal` says in words whose.
Table<AttackResult> reached_table(const std::string& prefix, const std::string& on, const std::string& signal) {
  using A = AttackResult;
  Table<A> table;
  table.column({prefix + "signal", on, "", signal}, [](const A& a) { return name_of(a.place.signal); })
      .column({prefix + "sublayer", on, "1", "its sublayer"}, [](const A& a) { return a.place.sublayer; })
      .column({prefix + "feature", on, "1", "its feature"}, [](const A& a) { return a.place.channel; })
      .column({prefix + "bound", on, "1", "its bound"}, &A::bound)
      .column({prefix + "reached", on, "1", "largest magnitude reached"}, &A::reached);
  return table;
}

Table<FormatHeadroom> factor_table() {
  using F = FormatHeadroom;
  Table<F> table;
  table
      .column({"headroom_c_certified", "format", "1",
               "largest power of two c, from 2^-40 to 2^40, with which every class of the scaled stack is certified; "
               "missing: none, or a format that was not judged"},
              &F::stream)
      .column({"headroom_c_measured", "format", "1",
               "largest c with which 4 times the largest magnitude measured fits the format"},
              &F::measured)
      .column({"headroom_k_certified", "format", "1",
               "largest power of two k of branches before norms B that is certified together with c_certified"},
              &F::branch)
      .column_if_any({"headroom_reason", "format", "", "why no c is certified"},
                     [](const F& f) { return f.reason.empty() ? std::nullopt : std::optional(f.reason); });
  return table;
}

/// Returns the columns of the stack that was scaled and compared with the original.
Table<ScaledRun> scaled_table() {
  using R = ScaledRun;
  Table<R> table;
  table
      .column({"scaled_c", "", "1", "c of the stack that was scaled and run"},
              [](const R& r) { return r.scale.stream; })
      .column({"scaled_k", "", "1", "k of it"}, [](const R& r) { return r.scale.branch; })
      .column({"scaled_tokens", "", "1", "tokens of that run"}, &R::tokens)
      .column({"logit_difference", "", "1", "largest change of a logit over the largest logit"}, &R::difference)
      .column({"logit_difference_without_eps", "", "1", "the same at eps = 0"}, &R::without_eps)
      .column({"logit_difference_gains_alone", "", "1", "the same if only gains and the embedding are scaled"},
              &R::gains_alone);
  return table;
}

/// Returns the columns of a stack that can be scaled.
Table<Headroom> headroom_table() {
  using H = Headroom;
  Table<H> table;
  table
      .column({"headroom_gains_alone", "", "1", "1: the embedding's scale and gains and biases of norms do it alone"},
              [](const H& h) { return h.recipe.gains_alone; })
      .column({"headroom_multiplied", "multiplied", "", "what c multiplies"},
              [](const H& h) { return h.recipe.multiplied; })
      .column({"headroom_divided", "divided", "", "what c divides"}, [](const H& h) { return h.recipe.divided; })
      .column({"headroom_stream_bound", "", "1", "largest bound of what grows with c"}, &H::stream_bound)
      .column({"headroom_stream_measured", "", "1", "largest magnitude measured of it"}, &H::stream_measured)
      .rows_at("format", factor_table(),
               [](const H& h) {
                 InFormats<FormatHeadroom> all;
                 for (const FormatHeadroom& f : h.formats) all.emplace_back(position_of(f.format), f);
                 return all;
               })
      .part(scaled_table(), [](const H& h) { return h.run ? &*h.run : nullptr; });
  return table;
}

const Table<CertifyResult>& result_table() {
  using R = CertifyResult;
  static const Table<R> all = [] {
    const auto itself = [](const R& r) { return &r; };
    Table<NumberFormat> largest;
    largest.column({"format_largest", "format", "1", "largest finite number of the format"}, &NumberFormat::largest);
    Table<Judged> scaled;
    scaled.column({"scaled_run_certified", "format class", "1", "certified of the stack that was scaled"},
                  &Judged::certified);
    Table<R> table;
    table.part(model_table(), itself)
        .part(bounds_table(), itself)
        .rows(
            "format", largest, [](const R& /*r*/) -> const auto& { return number_formats; })
        .rows_at("format", verdict_table(), judged)
        .rows("attack", reached_table("attack_", "attack", "signal that was attacked"), &R::attacks)
        .part(reached_table("exceeded_", "", "signal whose bound a run passed, which is a bug of this program"),
              [](const R& r) { return r.check.exceeded ? &*r.check.exceeded : nullptr; })
        .column_if_any({"overflowed", "", "", "where a run overflowed its own format, as its certificate allows"},
                       [](const R& r) -> std::optional<std::string> {
                         if (!r.check.overflowed) return std::nullopt;
                         return place_text(*r.check.overflowed, r.spec.model);
                       })
        .column({"headroom_possible", "", "1", "1: the stream can be scaled with the function kept"},
                [](const R& r) { return r.headroom.possible; })
        .part(headroom_table(), [](const R& r) { return r.headroom.possible ? &r.headroom : nullptr; })
        .rows_at("format", scaled, scaled_runs);
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "certify", 6,
      {{"signal", Type::text, "", "signal"},
       {"class", Type::text, "", "class of signals"},
       {"place", Type::integer, "1", "sublayer; -1: before the first, 2L: after the last"},
       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
       {"feature"},
       {"format", Type::text, "", "number format"},
       {"weights", Type::text, "", "file of weights, or drawn"},
       {"attack"},
       {"exclusion"},
       {"multiplied"},
       {"divided"}},
      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const CertifyResult& result) {
  dataset::Builder builder(schema());
  for (std::size_t s = 0; s < theory::certified_signals.size(); ++s) {
    builder.at("signal", s).put("signal", name_of(theory::certified_signals[s]));
  }
  builder.put("class", theory::signal_class_names);
  const auto sublayers = static_cast<std::size_t>(result.spec.model.sublayers());
  builder.count("place", sublayers + 2, -1);
  builder.count("depth", sublayers + 1);
  for (std::size_t f = 0; f < number_formats.size(); ++f) builder.at("format", f).put("format", number_formats[f].name);
  for (std::size_t k = 0; k < result.weights.size(); ++k) {
    builder.at("weights", k).put("weights", result.weights[k].first);
  }
  result_table().put(result, builder.row());
  // What figures look for is there even if exact arithmetic alone was certified.
  builder.mention("run_bound");
  builder.mention("certified");
  return builder.finish();
}

}  // namespace periscope::certify
