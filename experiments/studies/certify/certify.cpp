#include "experiments/studies/certify/certify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/rescaled_stack.h"
#include "experiments/engine/settings/parse_format.h"
#include "sim/base/error.h"

namespace periscope::certify {

Requirement parse_requirement(const std::string& word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos) return {theory::SignalClass::stream, config::parse_format(word, "--require")};
  const std::string kind = word.substr(0, colon);
  const NumberFormat format = config::parse_format(word.substr(colon + 1), "--require");
  if (kind == "all") return {std::nullopt, format};
  const auto* at = std::ranges::find(theory::signal_class_names, kind);
  if (at == theory::signal_class_names.end()) {
    throw ConfigError(fmt::format("--require {}: expected a class of {} or all before the colon", word,
                                  fmt::join(theory::signal_class_names, ", ")));
  }
  return {static_cast<theory::SignalClass>(at - theory::signal_class_names.begin()), format};
}

theory::Verdict verdict_of(const theory::Certificate& certificate, const Requirement& requirement) {
  if (certificate.arithmetic.kind != Arithmetic::exact) return theory::verdict(certificate, requirement.kind);
  return theory::verdict(certificate, requirement.kind, requirement.format);
}

bool passed(const CertifyResult& result, const std::vector<Requirement>& requirements) {
  const auto met = [&](const Requirement& r) { return result.verdict(r.kind, r.format).certified; };
  return !result.check.exceeded && std::ranges::all_of(requirements, met);
}

std::string reason_of(const theory::Verdict& verdict, const ModelSpec& model) {
  if (verdict.certified) return {};
  const theory::SignalBound& b = *verdict.first;
  if (verdict.weight != nullptr) return stacks::weight_words(*verdict.weight, verdict.limit);
  const std::string place = place_text({b.signal, b.sublayer, b.channel}, model);
  if (b.signal == Signal::reciprocals && std::isinf(b.largest)) {
    return fmt::format("{}: eps = {:g} is lost in the format, and 0/0 is possible", place, model.norm_eps);
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
  if (!one_number) return fmt::format("{}, {} {}", text, of_heads ? "head" : "feature", place.channel);
  if (in_layer) return text;
  return text + (place.sublayer < 0 ? ", input" : ", head");
}

}  // namespace periscope::certify
