#include "experiments/certify/certify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/spec/error.h"

namespace periscope {

NumberFormat parse_format(const std::string& word) {
  const auto* at = std::ranges::find(number_formats, word, &NumberFormat::name);
  if (at != number_formats.end()) return *at;
  std::vector<std::string_view> names;
  for (const NumberFormat& f : number_formats) names.push_back(f.name);
  throw ConfigError(fmt::format("number format \"{}\": expected one of {}", word, fmt::join(names, ", ")));
}

Requirement parse_requirement(const std::string& word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos) return {theory::SignalClass::stream, parse_format(word)};
  const std::string kind = word.substr(0, colon);
  const NumberFormat format = parse_format(word.substr(colon + 1));
  if (kind == "all") return {std::nullopt, format};
  const auto* at = std::ranges::find(theory::signal_class_names, kind);
  if (at == theory::signal_class_names.end()) {
    throw ConfigError(fmt::format("--require {}: expected a class of {} or all before the colon", word,
                                  fmt::join(theory::signal_class_names, ", ")));
  }
  return {static_cast<theory::SignalClass>(at - theory::signal_class_names.begin()), format};
}

bool is_certified(const theory::Certificate& certificate, const Requirement& requirement) {
  return std::ranges::all_of(certificate.bounds, [&](const theory::SignalBound& b) {
    const bool counts = !requirement.kind || theory::class_of(b.signal) == *requirement.kind;
    return !counts || b.largest <= requirement.format.largest;
  });
}

std::string place_text(const SignalPlace& place, const ModelSpec& model) {
  const std::string_view name = theory::signal_names[static_cast<std::size_t>(place.signal)];
  const std::string_view what = place.signal == theory::Signal::scores ? "head" : "feature";
  if (place.sublayer < 0) {
    const std::string_view where = place.signal == theory::Signal::x_out ? "stack's input" : name;
    return fmt::format("{}, {} {}", where, what, place.channel);
  }
  if (place.sublayer >= model.sublayers()) return fmt::format("{}, {} {}", name, what, place.channel);
  return fmt::format("{}, layer {} {}, {} {}", name, place.sublayer / 2,
                     ModelSpec::is_attention(place.sublayer) ? "attention" : "MLP", what, place.channel);
}

}  // namespace periscope
