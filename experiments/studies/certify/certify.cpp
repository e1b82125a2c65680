#include "experiments/studies/certify/certify.h"
#include "experiments/engine/settings/parse_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "experiments/engine/run/rescaled_stack.h"
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

const theory::Certificate& certificate_for(const CertifyResult& result, const NumberFormat& format) {
  return certificate_for(Certificates{result.certificate, result.runs}, format);
}

theory::Verdict verdict_of(const theory::Certificate& certificate, const Requirement& requirement) {
  if (certificate.arithmetic.kind != Arithmetic::exact) return theory::verdict(certificate, requirement.kind);
  return theory::verdict(certificate, requirement.kind, requirement.format);
}

theory::Verdict verdict_of(const CertifyResult& result, const Requirement& requirement) {
  return verdict_of(certificate_for(result, requirement.format), requirement);
}

bool passed(const CertifyResult& result, const std::vector<Requirement>& requirements) {
  const auto met = [&](const Requirement& r) { return verdict_of(result, r).certified; };
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
  const std::string_view name = name_of(place.signal);
  const bool of_heads = place.signal == Signal::scores || place.signal == Signal::dots ||
                        (place.signal == Signal::cap_inputs && place.sublayer < model.sublayers());
  const std::string_view what = of_heads ? "head" : "feature";
  if (is_one_number(place.signal)) {
    const std::string_view where = place.sublayer < 0                        ? "input"
                                   : ModelSpec::is_attention(place.sublayer) ? "attention"
                                                                             : "MLP";
    if (place.sublayer < 0 || place.sublayer >= model.sublayers()) {
      return fmt::format("{}, {}", name, place.sublayer < 0 ? "input" : "head");
    }
    return fmt::format("{}, layer {} {}", name, ModelSpec::layer_of(place.sublayer), where);
  }
  if (place.sublayer < 0) {
    const std::string_view where = place.signal == Signal::x_out ? "stack's input" : name;
    return fmt::format("{}, {} {}", where, what, place.channel);
  }
  if (place.sublayer >= model.sublayers()) return fmt::format("{}, {} {}", name, what, place.channel);
  return fmt::format("{}, layer {} {}, {} {}", name, ModelSpec::layer_of(place.sublayer),
                     ModelSpec::is_attention(place.sublayer) ? "attention" : "MLP", what, place.channel);
}

}  // namespace periscope::certify
