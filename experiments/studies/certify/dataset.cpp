#include <algorithm>

#include "experiments/engine/result/table.h"
#include "experiments/studies/certify/certify.h"
#include "sim/base/mapped.h"

namespace periscope::certify {
namespace {

using dataset::Table;
using dataset::Type;
using theory::Certificate;
using theory::SignalBound;
using theory::SignalClass;

/// Returns an array [signal][place]: bounds or, if `measured` is given, the largest measured values. NaN if missing.
std::vector<double> by_place(const Certificate& c, const ModelSpec& model, const SignalMaxima* measured = nullptr) {
  const auto places = static_cast<std::size_t>(model.sublayers()) + 2;
  std::vector<double> all(theory::certified_signals.size() * places, std::nan(""));
  for (const SignalBound& b : c.bounds) {
    const auto row = std::ranges::find(theory::certified_signals, b.signal) - theory::certified_signals.begin();
    all[static_cast<std::size_t>(row) * places + static_cast<std::size_t>(b.sublayer + 1)] =
        measured == nullptr ? b.largest : measured->largest(b.signal, b.sublayer);
  }
  return all;
}

std::size_t most_kv_heads(const ModelSpec& model) {
  return static_cast<std::size_t>(model.largest([&](int layer) { return model.kv_heads_at(layer); }));
}

/// Returns an array [cached][layer][kv_head]; NaN for heads that a layer does not have.
std::vector<double> cache_bounds(const CertifyResult& r) {
  const ModelSpec& model = r.spec.model;
  const std::size_t heads = most_kv_heads(model);
  std::vector<double> all(2 * static_cast<std::size_t>(model.layers) * heads, std::nan(""));
  for (const CachedHead& head : cached_heads(r.certificates.exact, model)) {
    const int row = (head.signal == Signal::k ? 0 : model.layers) + head.layer;
    all[static_cast<std::size_t>(row) * heads + static_cast<std::size_t>(head.head)] = head.bound;
  }
  return all;
}

/// Returns for every class of signals whether its certificate holds for the format.
std::vector<bool> certified(const Certificates& certificates, const NumberFormat& format) {
  std::vector<bool> all;
  for (std::size_t k = 0; k < theory::signal_class_names.size(); ++k) {
    const auto kind = static_cast<SignalClass>(k);
    all.push_back(theory::verdict(certificates.of(kind, format), kind, format).certified);
  }
  return all;
}

/// A requested number format and the results for it.
struct InFormat {
  const CertifyResult& r;
  const NumberFormat& format;
  const FormatHeadroom* headroom;  ///< null if the stream cannot be scaled

  [[nodiscard]] const Certificate& certificate() const { return r.certificates.in(format); }
};

/// Returns the requested formats with their indices along the dimension `format`.
std::vector<std::pair<std::size_t, InFormat>> formats_of(const CertifyResult& r) {
  std::vector<std::pair<std::size_t, InFormat>> all;
  for (const NumberFormat& f : r.config.formats) {
    const auto* at = std::ranges::find(number_formats, f.name, &NumberFormat::name);
    const FormatHeadroom* headroom = r.headroom.formats.empty() ? nullptr : &r.headroom.formats[all.size()];
    all.push_back({static_cast<std::size_t>(at - number_formats.begin()), {r, f, headroom}});
  }
  return all;
}

/// Columns of formats that have a certificate of a run, not only of exact arithmetic.
Table<InFormat> run_table() {
  using F = InFormat;
  Table<F> table;
  table
      .column({"run_weights_rounded", "format", "1", "1: weights are rounded to the format"},
              [](const F& f) { return f.certificate().weights_rounded; })
      .column({"certified", "format class", "1", "1: no input can overflow a signal of the class; 0: not certified"},
              [](const F& f) { return certified(f.r.certificates, f.format); })
      .column({"run_signal_bound", "format signal place", "1",
               "largest magnitude that any input can cause in the arithmetic of a run (T24)"},
              [](const F& f) { return by_place(f.certificate(), f.r.spec.model); })
      .column_if_any({"scaled_run_certified", "format class", "1", "certified, for the scaled stack"}, [](const F& f) {
        const std::optional<ScaledRun>& run = f.r.headroom.run;
        return run ? std::optional(certified(run->certificates, f.format)) : std::nullopt;
      });
  return table;
}

Table<InFormat> format_table() {
  using F = InFormat;
  using H = FormatHeadroom;
  Table<H> headroom;
  headroom
      .column({"headroom_c_certified", "format", "1",
               "largest power of two c, from 2^-40 to 2^40, for which every class of the scaled stack is certified"},
              &H::stream)
      .column({"headroom_c_measured", "format", "1",
               "largest c for which 4 times the largest measured magnitude fits the format"},
              &H::measured)
      .column({"headroom_k_certified", "format", "1",
               "largest power of two k, multiplying branches before norms B, that is certified together with "
               "headroom_c_certified"},
              &H::branch)
      .column_if_any({"headroom_reason", "format", "", "why no c is certified"},
                     [](const H& f) { return f.reason.empty() ? std::nullopt : std::optional(f.reason); });
  Table<F> table;
  table
      .column({"stream_certified", "format", "1", "1: no input can overflow the residual stream"},
              [](const F& f) { return f.r.verdict(SignalClass::stream, f.format).certified; })
      .column({"everywhere_certified", "format", "1", "1: no input can overflow any signal"},
              [](const F& f) { return f.r.verdict(std::nullopt, f.format).certified; })
      .column({"stream_reason", "format", "", "why the stream is not certified"},
              [](const F& f) { return reason_of(f.r.verdict(SignalClass::stream, f.format), f.r.spec.model); })
      .column({"everywhere_reason", "format", "", "why not every signal is certified"},
              [](const F& f) { return reason_of(f.r.verdict(std::nullopt, f.format), f.r.spec.model); })
      .part(run_table(), [](const F& f) { return f.r.certificates.runs.empty() ? nullptr : &f; })
      .part(headroom, &F::headroom);
  return table;
}

/// Names of products, in the order of the dimension `product`.
const std::vector<std::string_view> product_names = [] {
  std::vector<std::string_view> all{name_of(Signal::dots), name_of(Signal::mixed)};
  for (const Weight weight :
       {Weight::q, Weight::k, Weight::v, Weight::o, Weight::gate, Weight::up, Weight::down, Weight::attention_gate,
        Weight::unembedding, Weight::project_in, Weight::project_out, Weight::head_dense, Weight::router}) {
    all.push_back(name_of(weight));
  }
  return all;
}();

/// Returns an array [product][place] of value(product); NaN if the stack has no such product. Nullopt unless signals of
/// FP16 were certified for a run.
template <class Value>
std::optional<std::vector<double>> by_product(const CertifyResult& r, const Value& value) {
  const Certificate& certificate = r.certificates.in(fp16);
  if (certificate.products.empty()) return std::nullopt;
  const auto places = static_cast<std::size_t>(r.spec.model.sublayers()) + 2;
  std::vector<double> all(product_names.size() * places, std::nan(""));
  for (const theory::ProductBound& p : certificate.products) {
    const auto row = static_cast<std::size_t>(std::ranges::find(product_names, p.name) - product_names.begin());
    all.at(row * places + static_cast<std::size_t>(p.sublayer + 1)) = value(p);
  }
  return all;
}

std::vector<SignalBound> stream_bounds(const CertifyResult& r) {
  std::vector<SignalBound> all;
  for (int s = -1; s < r.spec.model.steps(); ++s) all.push_back(*r.certificates.exact.find(Signal::x_out, s));
  return all;
}

Table<CertifyResult> result_table() {
  using R = CertifyResult;
  using A = AttackResult;
  Table<study::NamedHash> hashes;
  hashes.column({"weights_sha256", "weights", "", "SHA-256 of the file, or of the weights as drawn"},
                &study::NamedHash::second);
  Table<SignalBound> stream;
  stream.column({"stream_bound", "depth feature", "1", "bound on every feature of the stream x_out"},
                [](const SignalBound& b) { return std::vector<double>(b.magnitude.begin(), b.magnitude.end()); });
  Table<A> attacks;
  attacks.column({"attack_bound", "attack", "1", "bound on the attacked signal"}, &A::bound)
      .column({"attack_reached", "attack", "1", "largest magnitude found"}, &A::reached);
  Table<ScaledRun> scaled;
  scaled
      .column({"scaled_c", "", "1", "c of the scaled stack that was run"},
              [](const ScaledRun& r) { return r.scale.stream; })
      .column({"scaled_k", "", "1", "k of the scaled stack that was run"},
              [](const ScaledRun& r) { return r.scale.branch; })
      .column({"scaled_tokens", "", "1", "tokens of the scaled run"}, &ScaledRun::tokens)
      .column({"logit_difference", "", "1", "largest change of a logit, relative to the largest logit"},
              &ScaledRun::difference)
      .column({"logit_difference_without_eps", "", "1", "logit_difference at eps = 0"}, &ScaledRun::without_eps)
      .column({"logit_difference_gains_alone", "", "1", "logit_difference if only gains and the embedding are scaled"},
              &ScaledRun::gains_alone);
  const auto text_of = [](const std::optional<SignalPlace>& at, const R& r) {
    return at ? std::optional(place_text(*at, r.spec.model)) : std::nullopt;
  };
  Table<R> table;
  table.column({"model", "", "", "name of the model"}, &R::model)
      .column({"family", "", "", "family of the checkpoint; empty for other weights"}, &R::family)
      .column({"input", "", "", "kind of input: tokens or real vectors"},
              [](const R& r) { return r.domain.tokens ? "tokens" : "real"; })
      .column_if_any({"input_maximum", "", "1", "largest entry of real vectors"},
                     [](const R& r) { return r.domain.tokens ? std::nullopt : std::optional(r.domain.largest); })
      .rows("weights", hashes, &R::weights)
      .column({"arithmetic", "", "", "arithmetic of the verdicts"},
              [](const R& r) { return arithmetic_names[static_cast<std::size_t>(r.config.arithmetic)]; })
      .column_if_any({"length", "", "1", "longest input in tokens that is certified"},
                     [](const R& r) {
                       const auto& runs = r.certificates.runs;
                       return runs.empty() ? std::nullopt : std::optional(runs.front().longest);
                     })
      .column({"excluded", "exclusion", "", "inputs and runs that are not covered"}, not_covered)
      .column({"signal_class", "signal", "", "class of the signal", Type::text, true},
              [](const R&) {
                return mapped(theory::certified_signals, [](Signal s) {
                  return theory::signal_class_names[static_cast<std::size_t>(theory::class_of(s))];
                });
              })
      .column({"bound", "signal place", "1", "largest magnitude that any input can cause in exact arithmetic (T17)"},
              [](const R& r) { return by_place(r.certificates.exact, r.spec.model); })
      .column_if_any({"measured", "signal place", "1", "largest magnitude measured"},
                     [](const R& r) {
                       const SignalMaxima* seen = r.measured ? &*r.measured : nullptr;
                       return seen ? std::optional(by_place(r.certificates.exact, r.spec.model, seen)) : std::nullopt;
                     })
      .rows("depth", stream, stream_bounds)
      .column({"cache_bound", "cached layer kv_head", "1",
               "largest entry of a key after RoPE and QK-norm, or of a value, that any input can cause in exact "
               "arithmetic; NaN for heads that a layer lacks"},
              cache_bounds)
      .column_if_any(
          {"fp16_partial_sums", "product place", "1",
           "largest partial sum that any input can cause if this product accumulates in FP16"},
          [](const R& r) { return by_product(r, [](const theory::ProductBound& p) { return p.sums_in(fp16); }); })
      .column_if_any({"fp16_curing_shift", "product place", "1",
                      "smallest k for which no partial sum overflows FP16 if the input, the query or the value is "
                      "multiplied by 2^-k"},
                     [](const R& r) {
                       return by_product(r, [](const theory::ProductBound& p) {
                         const auto shift = p.curing_shift(fp16);
                         return shift ? static_cast<double>(*shift) : std::nan("");
                       });
                     })
      .column_if_any({"own_bound", "signal place", "1",
                      "largest magnitude that any input can cause in the arithmetic of the measurement (T24)"},
                     [](const R& r) { return r.own ? std::optional(by_place(*r.own, r.spec.model)) : std::nullopt; })
      .column({"format_largest", "format", "1", "largest finite number of the format"},
              [](const R&) { return mapped(number_formats, &NumberFormat::largest); })
      .rows_at("format", format_table(), formats_of)
      .rows("attack", attacks, &R::attacks)
      .column_if_any({"exceeded", "", "", "place where a pass exceeded a bound, which indicates a bug in this program"},
                     [=](const R& r) {
                       return text_of(r.check.exceeded ? std::optional(r.check.exceeded->place) : std::nullopt, r);
                     })
      .column_if_any({"overflowed", "", "", "place where a pass overflowed its format, as its certificate allows"},
                     [=](const R& r) { return text_of(r.check.overflowed, r); })
      .part(scaled, [](const R& r) { return r.headroom.run ? &*r.headroom.run : nullptr; });
  return table;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "certify", 10,
      {{"signal", Type::text, "", "signal"},
       {"class", Type::text, "", "class of signals"},
       {"place", Type::integer, "1", "sublayer; -1: before the first, 2L: after the last"},
       {"depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
       {"feature"},
       {"format", Type::text, "", "number format"},
       {"weights", Type::text, "", "file of weights, or drawn"},
       {"cached", Type::text, "", "keys (k) or values (v)"},
       {"layer", Type::integer, "1", "layer"},
       {"kv_head", Type::integer, "1", "key/value head"},
       {"product", Type::text, "",
        "matrix of the product; dots: queries with keys; mixed: attention weights with values"},
       {"attack", Type::text, "", "attacked signal"},
       {"exclusion"}},
      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const CertifyResult& result) {
  dataset::Builder builder(schema());
  builder.put("signal", mapped(theory::certified_signals, [](Signal s) { return name_of(s); }));
  builder.put("class", theory::signal_class_names);
  builder.put("format", mapped(number_formats, &NumberFormat::name));
  builder.put("weights", mapped(result.weights, &study::NamedHash::first));
  builder.put("attack",
              mapped(result.attacks, [&](const AttackResult& a) { return place_text(a.place, result.spec.model); }));
  const auto sublayers = static_cast<std::size_t>(result.spec.model.sublayers());
  builder.put("cached", std::vector{name_of(Signal::k), name_of(Signal::v)});
  builder.put("product", product_names);
  builder.count("layer", static_cast<std::size_t>(result.spec.model.layers));
  builder.count("kv_head", most_kv_heads(result.spec.model));
  builder.count("place", sublayers + 2, -1);
  builder.count("depth", sublayers + 1);
  result_table().put(result, builder.row());
  // Figures read these columns even if only exact arithmetic was certified.
  builder.put("run_signal_bound", std::vector<double>());
  builder.put("certified", std::vector<bool>());
  return builder.finish();
}

}  // namespace periscope::certify
