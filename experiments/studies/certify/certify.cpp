#include "experiments/studies/certify/certify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/engine/run/rescaled_stack.h"
#include "experiments/engine/settings/config.h"
#include "sim/base/error.h"

namespace periscope::certify {

Requirement parse_requirement(const std::string& word) {
  const std::size_t colon = word.find(':');
  const bool named = colon != std::string::npos;
  const std::string kind = named ? word.substr(0, colon) : "stream";
  const NumberFormat format = config::parse_format(named ? word.substr(colon + 1) : word, "--require");
  if (kind == "all") return {std::nullopt, format};
  const auto* at = std::ranges::find(theory::signal_class_names, kind);
  if (at == theory::signal_class_names.end()) {
    throw ConfigError(fmt::format("--require {}: expected one of {}, or all, before the colon", word,
                                  fmt::join(theory::signal_class_names, ", ")));
  }
  return {static_cast<theory::SignalClass>(at - theory::signal_class_names.begin()), format};
}

bool passed(const CertifyResult& result, const std::vector<Requirement>& requirements) {
  const auto met = [&](const Requirement& r) { return result.verdict(r.kind, r.format).certified; };
  return !result.check.exceeded && std::ranges::all_of(requirements, met);
}

std::string reason_of(const theory::Verdict& verdict, const ModelSpec& model) {
  if (verdict.certified) return {};
  const theory::SignalBound& b = *verdict.first;
  if (verdict.weight != nullptr) return stacks::weight_words(*verdict.weight, verdict.limit);
  const std::string place = place_text({b.signal, b.sublayer, b.channel, b.expert}, model);
  if (b.signal == Signal::reciprocals && std::isinf(b.largest)) {
    return fmt::format("{}: eps = {:g} is lost to rounding in the format, so 0/0 is possible", place, model.norm_eps);
  }
  if (std::isinf(b.largest)) return fmt::format("{}: no finite bound, limit {:.6g}", place, verdict.limit);
  return fmt::format("{}: may reach {:.4g} > {:.6g}", place, b.largest, verdict.limit);
}

std::string place_text(const SignalPlace& place, const ModelSpec& model) {
  const bool in_layer = place.sublayer >= 0 && place.sublayer < model.sublayers();
  const bool one_number = is_one_number(place.signal);
  const bool of_heads = place.signal == Signal::scores || place.signal == Signal::dots ||
                        (place.signal == Signal::cap_inputs && place.sublayer < model.sublayers());
  std::string text(!one_number && place.sublayer < 0 && place.signal == Signal::x_out ? "stack's input"
                                                                                      : name_of(place.signal));
  if (in_layer) {
    text += fmt::format(", layer {} {}", ModelSpec::layer_of(place.sublayer),
                        ModelSpec::is_attention(place.sublayer) ? "attention" : "MLP");
  }
  if (place.expert >= 0) text += fmt::format(", expert {}", place.expert);
  if (!one_number) return fmt::format("{}, {} {}", text, of_heads ? "head" : "feature", place.channel);
  if (in_layer) return text;
  return text + (place.sublayer < 0 ? ", input" : ", head");
}

std::vector<CachedHead> cached_heads(const theory::Certificate& certificate, const ModelSpec& model) {
  std::vector<CachedHead> all;
  for (const Signal signal : {Signal::k, Signal::v}) {
    for (int layer = 0; layer < model.layers; ++layer) {
      const theory::Vector& bound = certificate.find(signal, 2 * layer)->magnitude;
      const int e = model.head_dim_at(layer);
      for (int head = 0; head < model.kv_heads_at(layer); ++head) {
        all.push_back({signal, layer, head, bound.segment(head * e, e).maxCoeff()});
      }
    }
  }
  return all;
}

std::vector<theory::ProductBound> overflowing_products(const CertifyResult& result) {
  std::vector<theory::ProductBound> worst;
  const theory::Certificate& certificate = result.certificates.in(fp16);
  if (certificate.arithmetic.kind == Arithmetic::exact) return worst;
  for (const theory::ProductBound& product : certificate.products) {
    if (product.sums_in(fp16) <= fp16.largest) continue;
    const auto at = std::ranges::find(worst, product.name, &theory::ProductBound::name);
    if (at == worst.end()) {
      worst.push_back(product);
    } else if (product.sums_in(fp16) > at->sums_in(fp16)) {
      *at = product;
    }
  }
  return worst;
}

// Each of the R rescalings (one per block after the first) counts as two tokens. Lemma 6 requires (n + R)u' ≤ 1/2,
// and that the undivided sum |Σp v| ≤ n·max|v|(1 + (n + 2R)u') ≤ 2n·max|v| fits the accumulators.
int longest_divided_after(const theory::Certificate& certificate, const ModelSpec& model) {
  const RunArithmetic& run = certificate.arithmetic;
  if (run.kind == Arithmetic::exact) return 0;
  int read = certificate.longest;
  double values = 0.0;
  for (int layer = 0; layer < model.layers; ++layer) {
    if (const int window = model.scores_at(layer).window; window > 0) read = std::min(read, window);
    const theory::SignalBound* v = certificate.find(Signal::v, 2 * layer);
    if (v != nullptr) values = std::max(values, v->largest);
  }
  const double fitting = std::floor(run.accumulated.largest / (2.0 * values));
  const double shorter = std::floor(0.5 / (run.accumulated.unit_roundoff() * (1.0 + 1.0 / smallest_block)));
  int longest = static_cast<int>(std::min({static_cast<double>(read), fitting, shorter}));
  while (longest > 0 && longest + 2 * ((longest - 1) / smallest_block) > read) --longest;
  return longest;
}

std::vector<std::string> not_covered(const CertifyResult& r) {
  std::vector<std::string> all;
  if (r.domain.tokens) {
    all.emplace_back("inputs that bypass the embedding table (inputs_embeds, image embeddings)");
    all.emplace_back("padded sequences (additive masks, padding positions)");
  }
  if (r.config.arithmetic == Arithmetic::exact) return all;
  std::vector<std::string> lengths;
  std::set<int> different;
  for (const NumberFormat& f : r.config.formats) {
    const int longest = longest_divided_after(r.certificates.in(f), r.spec.model);
    lengths.push_back(fmt::format("{} in {}", longest, f.name));
    different.insert(longest);
  }
  const std::string limit = different.size() == 1 ? fmt::format("more than {} tokens", *different.begin())
                                                  : fmt::format("more tokens than {}", fmt::join(lengths, ", "));
  all.push_back(
      fmt::format("attention that divides by softmax's denominator after averaging (flash attention) over {}, or in "
                  "blocks of fewer than {}",
                  limit, smallest_block));
  all.emplace_back("attention over parts of the keys whose results are combined afterwards (split-K)");
  if (subtracts_mean(r.spec.model.norm)) {
    all.emplace_back("LayerNorms that compute the variance by Welford's update or as E[x²] - mean²");
  }
  all.emplace_back("accumulators that truncate, flush-to-zero");
  return all;
}

}  // namespace periscope::certify
