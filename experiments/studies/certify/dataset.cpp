#include "experiments/studies/certify/dataset_tables.h"

namespace periscope::certify {
namespace {

using dataset::Builder;
using dataset::Table;
using dataset::Type;
using theory::SignalBound;
using theory::SignalClass;

/// The columns of the whole result.
Table<CertifyResult> head_table() {
  using R = CertifyResult;
  Table<R> table;
  table.column({"model", "", "", "what the model is called"}, &R::model)
      .column({"family", "", "", "of checkpoints; nothing for other weights"}, &R::family)
      .column({"model_placement", "", "", "normalization placement (T1)"},
              [](const R& r) { return r.spec.model.placement.name; })
      .column({"model_layers", "", "1", "L"}, [](const R& r) { return r.spec.model.layers; })
      .column({"model_width", "", "1", "D"}, [](const R& r) { return r.spec.model.width; })
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
                     [](const R& r) { return r.runs.empty() ? std::nullopt : std::optional(r.runs.front().longest); })
      .column_if_any({"measured_tokens", "", "1", "tokens that were measured"},
                     [](const R& r) { return r.measured ? std::optional(r.tokens) : std::nullopt; });
  return table;
}

/// A format, and what the result's arithmetic makes of it.
struct FormatRow {
  theory::Verdict stream, everywhere;
  const ModelSpec& model;
};

std::vector<std::pair<std::size_t, FormatRow>> formats_of(const Judged& j) {
  std::vector<std::pair<std::size_t, FormatRow>> all;
  for (const NumberFormat& f : j.formats) {
    all.push_back({position_of(f),
                   {verdict_of(j.result, {SignalClass::stream, f}), verdict_of(j.result, {std::nullopt, f}),
                    j.result.spec.model}});
  }
  return all;
}

Table<FormatRow> verdict_table() {
  using F = FormatRow;
  const std::string on = "format";
  Table<F> table;
  table
      .column({"stream_certified", on, "1", "1: no input can overflow the residual stream"},
              [](const F& f) { return f.stream.certified; })
      .column({"everywhere_certified", on, "1", "1: nor anything else"},
              [](const F& f) { return f.everywhere.certified; })
      .column({"stream_reason", on, "", "what stands against the stream's certificate"},
              [](const F& f) { return reason_of(f.stream, f.model); })
      .column({"everywhere_reason", on, "", "what stands against the other"},
              [](const F& f) { return reason_of(f.everywhere, f.model); });
  return table;
}

Table<Certified> run_table() {
  Table<Certified> table;
  table.part(arithmetic_table("run_", "format", "the run that the verdict is for"),
             [](const Certified& c) { return &c.certificate; });
  const auto itself = [](const Certified& c) { return &c; };
  table.part(verdicts_table(""), itself)
      .part(run_places_table(), itself)
      .part(bounds_table("run_signal_", "format ", "the arithmetic of a run (T24)"), itself);
  return table;
}

/// The stream at one depth, in exact arithmetic.
struct StreamRow {
  const SignalBound& bound;
  const SignalMaxima* measured;
};

std::vector<StreamRow> stream_of(const Certified& c) {
  std::vector<StreamRow> all;
  for (int s = -1; s < c.model.steps(); ++s) all.push_back({*c.certificate.find(Signal::x_out, s), c.measured});
  return all;
}

Table<StreamRow> stream_table() {
  using S = StreamRow;
  const std::string on = "depth";
  Table<S> table;
  table
      .column_if_any({"stream_measured", on, "1", "largest magnitude measured in the stream"},
                     [](const S& s) -> std::optional<double> {
                       if (s.measured == nullptr) return std::nullopt;
                       return s.measured->largest(s.bound.signal, s.bound.sublayer);
                     })
      .column({"stream_bound", on + " feature", "1", "bound on every feature of the stream x_out"},
              [](const S& s) { return std::vector<double>(s.bound.magnitude.begin(), s.bound.magnitude.end()); });
  return table;
}

/// The columns of an attack's result; `signal` says in words whose.
Table<AttackResult> reached_table(const std::string& prefix, const std::string& on, const std::string& signal) {
  using A = AttackResult;
  Table<A> table;
  table.column({prefix + "signal", on, "", signal}, [](const A& a) { return name_of(a.place.signal); })
      .column({prefix + "sublayer", on, "1", "its sublayer"}, [](const A& a) { return a.place.sublayer; })
      .column({prefix + "feature", on, "1", "its feature"}, [](const A& a) { return a.place.channel; })
      .column({prefix + "bound", on, "1", "its bound"}, &A::bound)
      .column({prefix + "reached", on, "1", "largest magnitude reached"}, &A::reached)
      .column({prefix + "ratio", on, "1", "reached over bound"}, &A::ratio);
  return table;
}

/// Adds what was measured and attacked, and the bounds that it was held against.
void add_own(Table<Judged>& table) {
  table
      .part(arithmetic_table("own_", "", "the runs that were measured and attacked"),
            [](const Judged& j) { return j.own ? &j.own->certificate : nullptr; })
      .part(measured_bounds_table("own_", "the arithmetic of what was measured (T24)"),
            [](const Judged& j) { return j.own ? &*j.own : nullptr; })
      .rows(
          "attack", reached_table("attack_", "attack", "signal that was attacked"),
          [](const Judged& j) -> const auto& { return j.result.attacks; })
      .part(reached_table("exceeded_", "", "signal whose bound a run passed, which is a bug of this program"),
            [](const Judged& j) { return j.result.check.exceeded ? &*j.result.check.exceeded : nullptr; })
      .column_if_any({"overflowed", "", "", "where a run overflowed its own format, as its certificate allows"},
                     [](const Judged& j) -> std::optional<std::string> {
                       if (!j.result.check.overflowed) return std::nullopt;
                       return place_text(*j.result.check.overflowed, j.result.spec.model);
                     });
}

const Table<Judged>& judged_table() {
  static const Table<Judged> all = [] {
    Table<Judged> table;
    const auto exact = [](const Judged& j) { return &j.exact; };
    Table<NumberFormat> largest;
    largest.column({"format_largest", "format", "1", "largest finite number of the format"}, &NumberFormat::largest);
    table.part(head_table(), [](const Judged& j) { return &j.result; })
        .column({"excluded", "exclusion", "", "inputs and runs that are not covered"},
                [](const Judged& j) { return not_covered(j.result, j.formats); })
        .column({"signal_class", "signal", "", "class of the signal"},
                [](const Judged& /*j*/) {
                  std::vector<std::string_view> names;
                  for (const Signal s : theory::certified_signals) {
                    names.push_back(theory::signal_class_names[static_cast<std::size_t>(theory::class_of(s))]);
                  }
                  return names;
                })
        .rows(
            "format", largest, [](const Judged& /*j*/) -> const auto& { return number_formats; })
        .rows_at("format", verdict_table(), formats_of)
        .part(measured_bounds_table("", "exact arithmetic (T17)"), exact)
        .part(exact_places_table(), exact)
        .rows("depth", stream_table(), [](const Judged& j) { return stream_of(j.exact); })
        .rows_at(
            "format", run_table(), [](const Judged& j) -> const auto& { return j.runs; });
    add_own(table);
    table.part(headroom_table(), [](const Judged& j) { return &j; });
    return table;
  }();
  return all;
}

Judged judged(const CertifyResult& r, const std::vector<NumberFormat>& formats) {
  const SignalMaxima* measured = r.measured ? &*r.measured : nullptr;
  const ModelSpec& m = r.spec.model;
  Judged all{.result = r, .formats = formats, .exact = {r.certificate, m, measured, formats}};
  const auto add = [&](auto& to, const theory::Certificate& c, const ModelSpec& model) {
    to.emplace_back(position_of(c.arithmetic.stored), Certified{c, model, nullptr, formats});
  };
  for (const theory::Certificate& c : r.runs) add(all.runs, c, m);
  if (r.own) all.own.emplace(Certified{*r.own, m, measured, formats});
  if (!r.headroom.possible || !r.headroom.run) return all;
  const ScaledRun& run = *r.headroom.run;
  for (const theory::Certificate& c : run.runs) add(all.scaled_runs, c, run.model);
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "certify", 5,
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
      judged_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const CertifyResult& result, const std::vector<NumberFormat>& formats) {
  Builder builder(schema());
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
  judged_table().put(judged(result, formats), builder.row());
  // What figures look for is there even if exact arithmetic alone was certified.
  builder.mention("run_bound");
  builder.mention("certified");
  return builder.finish();
}

}  // namespace periscope::certify
