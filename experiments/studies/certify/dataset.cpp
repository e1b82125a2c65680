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
  Table<stacks::NamedHash> hashes;
  hashes.column({"weights_sha256", "weights", "", "SHA-256 of the file, or of the weights as drawn"},
                &stacks::NamedHash::second);
  Table<R> table;
  table.column({"model", "", "", "what the model is called"}, &R::model)
      .column({"family", "", "", "of checkpoints; nothing for other weights"}, &R::family)
      .column({"input", "", "", "what may enter: tokens, or real vectors"},
              [](const R& r) { return r.domain.tokens ? "tokens" : "real"; })
      .column_if_any({"input_maximum", "", "1", "largest entry of real vectors"},
                     [](const R& r) { return r.domain.tokens ? std::nullopt : std::optional(r.domain.largest); })
      .rows("weights", hashes, &R::weights)
      .column({"arithmetic", "", "", "that verdicts are for"},
              [](const R& r) { return arithmetic_names[static_cast<std::size_t>(r.arithmetic)]; })
      .column_if_any({"length", "", "1", "longest input in tokens that is certified"},
                     [](const R& r) {
                       const auto& runs = r.certificates.runs;
                       return runs.empty() ? std::nullopt : std::optional(runs.front().longest);
                     })
      .column({"excluded", "exclusion", "", "inputs and runs that are not covered"}, not_covered);
  return table;
}

Table<CertifyResult> bounds_table() {
  using R = CertifyResult;
  Table<SignalBound> stream;
  stream.column({"stream_bound", "depth feature", "1", "bound on every feature of the stream x_out"},
                [](const SignalBound& b) { return std::vector<double>(b.magnitude.begin(), b.magnitude.end()); });
  Table<R> table;
  table
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

/// Returns for every class of signals whether the certificate holds for the format.
std::vector<bool> certified(const Certificate& certificate, const NumberFormat& format) {
  std::vector<bool> all;
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    all.push_back(verdict_of(certificate, {static_cast<SignalClass>(k), format}).certified);
  }
  return all;
}

struct InFormat {
  const CertifyResult& r;
  const NumberFormat& format;
  const FormatHeadroom* headroom;  ///< null if the stream cannot be scaled

  [[nodiscard]] const Certificate& certificate() const { return r.certificates.in(format); }
  [[nodiscard]] bool is_run() const { return certificate().arithmetic.kind != Arithmetic::exact; }
  [[nodiscard]] theory::Verdict verdict(std::optional<SignalClass> kind) const { return r.verdict(kind, format); }
};

std::vector<InFormat> formats_of(const CertifyResult& r) {
  std::vector<InFormat> all;
  for (const NumberFormat& f : number_formats) {
    all.push_back({r, f, r.headroom.formats.empty() ? nullptr : &r.headroom.formats[all.size()]});
  }
  return all;
}

/// Columns of a format that is judged.
Table<InFormat> verdict_table() {
  using F = InFormat;
  Table<F> table;
  table
      .column({"stream_certified", "format", "1", "1: no input can overflow the residual stream"},
              [](const F& f) { return f.verdict(SignalClass::stream).certified; })
      .column({"everywhere_certified", "format", "1", "1: nor anything else"},
              [](const F& f) { return f.verdict(std::nullopt).certified; })
      .column({"stream_reason", "format", "", "why the stream is not certified"},
              [](const F& f) { return reason_of(f.verdict(SignalClass::stream), f.r.spec.model); })
      .column({"everywhere_reason", "format", "", "why not everything is"},
              [](const F& f) { return reason_of(f.verdict(std::nullopt), f.r.spec.model); });
  return table;
}

/// Columns of a format that has a certificate of a run.
Table<InFormat> run_table() {
  using F = InFormat;
  Table<F> table;
  table
      .column({"run_weights_rounded", "format", "1", "1: weights are rounded to the format"},
              [](const F& f) { return f.certificate().weights_rounded; })
      .column({"certified", "format class", "1", "1: no input can overflow the format there; 0: not certified"},
              [](const F& f) { return certified(f.certificate(), f.format); })
      .column({"run_bound", "format class place", "1", "largest bound of a class in the arithmetic of a run (T24)"},
              [](const F& f) { return by_place(f.certificate(), f.r.spec.model, Rows::classes); })
      .column({"run_signal_bound", "format signal place", "1",
               "largest magnitude that any input can cause in the arithmetic of a run (T24)"},
              [](const F& f) { return by_place(f.certificate(), f.r.spec.model, Rows::signals); });
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

Table<InFormat> format_table() {
  using F = InFormat;
  const auto judged = [](const F& f) {
    return std::ranges::count(f.r.formats, f.format.name, &NumberFormat::name) > 0 ? &f : nullptr;
  };
  Table<F> table;
  table
      .column({"format_largest", "format", "1", "largest finite number of the format"},
              [](const F& f) { return f.format.largest; })
      .part(verdict_table(), judged)
      .part(run_table(), [](const F& f) { return f.is_run() ? &f : nullptr; })
      .part(factor_table(), &F::headroom)
      .column_if_any({"scaled_run_certified", "format class", "1", "certified of the stack that was scaled"},
                     [](const F& f) {
                       const std::optional<ScaledRun>& run = f.r.headroom.run;
                       return run && f.is_run() ? std::optional(certified(run->certificates.in(f.format), f.format))
                                                : std::nullopt;
                     });
  return table;
}

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

const Table<CertifyResult>& result_table() {
  using R = CertifyResult;
  using A = AttackResult;
  static const Table<R> all = [] {
    const auto itself = [](const R& r) { return &r; };
    Table<A> attacks;
    attacks.column({"attack_bound", "attack", "1", "bound that was attacked"}, &A::bound)
        .column({"attack_reached", "attack", "1", "largest magnitude reached"}, &A::reached);
    Table<R> table;
    table.part(model_table(), itself)
        .part(bounds_table(), itself)
        .rows("format", format_table(), formats_of)
        .rows("attack", attacks, &R::attacks)
        .column_if_any({"exceeded", "", "", "where a run exceeded a bound, which is a bug of this program"},
                       [](const R& r) {
                         const auto& at = r.check.exceeded;
                         return at ? std::optional(place_text(at->place, r.spec.model)) : std::nullopt;
                       })
        .column_if_any({"overflowed", "", "", "where a run overflowed its own format, as its certificate allows"},
                       [](const R& r) {
                         const auto& at = r.check.overflowed;
                         return at ? std::optional(place_text(*at, r.spec.model)) : std::nullopt;
                       })
        .part(
            scaled_table(), [](const R& r) -> const auto& { return r.headroom.run; });
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "certify", 8,
      {{"signal", Type::text, "", "signal"},
       {"class", Type::text, "", "class of signals"},
       {"place", Type::integer, "1", "sublayer; -1: before the first, 2L: after the last"},
       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
       {"feature"},
       {"format", Type::text, "", "number format"},
       {"weights", Type::text, "", "file of weights, or drawn"},
       {"attack", Type::text, "", "signal that was attacked"},
       {"exclusion"}},
      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const CertifyResult& result) {
  dataset::Builder builder(schema());
  const auto label = [&](const char* dimension, const auto& rows, const auto& name) {
    std::vector<std::string> names;
    for (const auto& row : rows) names.emplace_back(std::invoke(name, row));
    builder.put(dimension, names);
  };
  label("signal", theory::certified_signals, [](Signal s) { return name_of(s); });
  label("class", theory::signal_class_names, std::identity{});
  label("format", number_formats, &NumberFormat::name);
  label("weights", result.weights, &stacks::NamedHash::first);
  label("attack", result.attacks, [&](const AttackResult& a) { return place_text(a.place, result.spec.model); });
  const auto sublayers = static_cast<std::size_t>(result.spec.model.sublayers());
  builder.count("place", sublayers + 2, -1);
  builder.count("depth", sublayers + 1);
  result_table().put(result, builder.row());
  // Figures read these even if exact arithmetic alone was certified.
  builder.put("run_bound", std::vector<double>());
  builder.put("certified", std::vector<bool>());
  return builder.finish();
}

}  // namespace periscope::certify
