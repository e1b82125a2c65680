#include "sim/checkpoint/scaled_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "sim/checkpoint/safetensors_writer.h"
#include "sim/files/output_folder.h"
#include "sim/model/parameters.h"
#include "sim/numerics/stored_bits.h"

namespace periscope {
namespace {

/// Factor of a tensor, and the offset added before multiplying: 1 for gains that are stored as gain − 1.
struct TensorFactor {
  double factor = 1.0;
  double plus = 0.0;
};

TensorFactor factor_of_uses(const std::string& tensor, const std::vector<ParameterMap::Use>& uses,
                            const FactorOfParameter& factor) {
  const TensorFactor first{factor(uses.front().parameter), uses.front().part.plus};
  for (const ParameterMap::Use& use : uses) {
    if (factor(use.parameter) == first.factor && use.part.plus == first.plus) continue;
    throw std::logic_error(fmt::format("tensor \"{}\" has parameters with different factors", tensor));
  }
  return first;
}

/// An implicit gain of 1 is not stored and cannot be scaled.
void require_stored_gains(const Checkpoint& checkpoint, const FactorOfParameter& factor) {
  for (const ParameterId& gain : gains_of(checkpoint.model())) {
    if (factor(gain) == 1.0 || checkpoint.map().find(gain) != nullptr) continue;
    throw ConfigError(fmt::format("{}: {} is not stored, so it cannot be multiplied by {:g}", checkpoint.folder(),
                                  name_of(gain), factor(gain)));
  }
}

/// Returns the factors of all tensors that change.
std::map<std::string, TensorFactor> factors_of(const Checkpoint& checkpoint, const FactorOfParameter& factor) {
  std::map<std::string, TensorFactor> all;
  for (const auto& [tensor, uses] : checkpoint.uses()) {
    const TensorFactor f = factor_of_uses(tensor, uses, factor);
    if (f.factor != 1.0) all.emplace(tensor, f);
  }
  for (const auto& [copy, original] : checkpoint.copies()) {
    const auto found = all.find(original);
    if (found != all.end() && checkpoint.files().contains(copy)) all.emplace(copy, found->second);
  }
  return all;
}

/// Replaces x by (x + plus)·factor − plus and returns the number of inexact results.
std::uint64_t scale(std::vector<double>& values, const TensorFactor& f) {
  std::uint64_t rounded = 0;
  for (double& x : values) {
    if (f.plus == 0.0) {
      const double y = x * f.factor;
      if (y / f.factor != x && !std::isnan(x)) ++rounded;
      x = y;
      continue;
    }
    const double whole = x + f.plus;
    const double y = whole * f.factor;
    const double stored = y - f.plus;
    // A sum is exact if subtracting either term gives the other.
    if (whole - f.plus != x || whole - x != f.plus || stored + f.plus != y || y - stored != f.plus) ++rounded;
    x = stored;
  }
  return rounded;
}

using Encoded = std::optional<std::vector<std::byte>>;
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// `encode` returns an element's bits, or nullopt if the type cannot represent it.
template <class Stored, class Encode>
Encoded encoded(std::span<const double> values, const Encode& encode) {
  std::vector<std::byte> bytes(values.size() * sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::optional<Stored> bits = encode(values[i]);
    if (!bits) return std::nullopt;
    std::memcpy(bytes.data() + i * sizeof(Stored), &*bits, sizeof(Stored));
  }
  return bytes;
}

/// Returns a double as float if the conversion is exact, including the sign of zero. All NaNs become the same NaN.
std::optional<float> as_float(double x) {
  if (std::isnan(x)) return nan;
  if (std::isfinite(x) && std::abs(x) > static_cast<double>(std::numeric_limits<float>::max())) return std::nullopt;
  const auto narrow = static_cast<float>(x);
  return static_cast<double>(narrow) == x ? std::optional(narrow) : std::nullopt;
}

/// Encodes numbers by looking them up among all values of a narrow type.
template <class Format>
Encoded looked_up(std::span<const double> values) {
  using Stored = typename Format::Stored;
  std::unordered_map<std::uint32_t, Stored> code_of;
  for (std::uint32_t code = 0; code <= std::numeric_limits<Stored>::max(); ++code) {
    const float value = Format::decode(static_cast<Stored>(code));
    code_of[std::bit_cast<std::uint32_t>(std::isnan(value) ? nan : value)] = static_cast<Stored>(code);
  }
  return encoded<Stored>(values, [&](double x) -> std::optional<Stored> {
    const std::optional<float> value = as_float(x);
    const auto found = value ? code_of.find(std::bit_cast<std::uint32_t>(*value)) : code_of.end();
    return found == code_of.end() ? std::nullopt : std::optional(found->second);
  });
}

/// Returns the little-endian elements, or nullopt if the type cannot represent one of the values. Drops NaN payloads.
Encoded exact_bytes(SafetensorsType type, std::span<const double> values) {
  switch (type) {
    case SafetensorsType::f64: return encoded<double>(values, [](double x) { return std::optional(x); });
    case SafetensorsType::f32: return encoded<float>(values, as_float);
    case SafetensorsType::f16: return looked_up<F16>(values);
    case SafetensorsType::bf16: return looked_up<Bf16>(values);
    case SafetensorsType::f8_e5m2: return looked_up<F8E5m2>(values);
    case SafetensorsType::f8_e4m3: return looked_up<F8E4m3>(values);
    default: throw std::logic_error("exact_bytes: not a floating-point type");
  }
}

struct ScaledTensor {
  SafetensorsType type;
  std::vector<std::byte> bytes;
  std::uint64_t rounded;
};

ScaledTensor scaled_tensor(const Checkpoint& checkpoint, const std::string& tensor, const TensorFactor& f) {
  std::vector<double> values = checkpoint.files().values(tensor);
  const std::uint64_t rounded = scale(values, f);
  const SafetensorsType own = checkpoint.files().find(tensor).type;
  for (const SafetensorsType type : {own, SafetensorsType::f32, SafetensorsType::f64}) {
    if (auto bytes = exact_bytes(type, values)) return {type, std::move(*bytes), rounded};
  }
  throw std::logic_error("scaled_tensor: f64 must represent every double");
}

}  // namespace

ScaledTensors write_scaled(const std::string& folder, const Checkpoint& checkpoint, const nlohmann::json& config,
                           const FactorOfParameter& factor, bool overwrite) {
  require_stored_gains(checkpoint, factor);
  const TensorFiles& files = checkpoint.files();
  const std::map<std::string, TensorFactor> factors = factors_of(checkpoint, factor);
  ScaledTensors done;
  std::vector<SafetensorsEntry> entries;
  for (const std::string& tensor : files.names()) {
    const SafetensorsView& view = files.find(tensor);
    SafetensorsEntry& entry = entries.emplace_back(SafetensorsEntry{tensor, view.type, view.shape});
    const auto found = factors.find(tensor);
    if (found == factors.end()) continue;
    const ScaledTensor scaled = scaled_tensor(checkpoint, tensor, found->second);
    entry.type = scaled.type;
    ++done.tensors;
    done.rounded += scaled.rounded;
    if (scaled.type != view.type) done.widened.push_back({tensor, view.type, scaled.type});
  }
  const auto wider = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return bits_of(a.type) > bits_of(b.type);
  };
  std::ranges::stable_sort(entries, wider);
  OutputFolder output(folder, {"model.safetensors", "config.json"}, overwrite);
  std::map<std::string, std::string> metadata = files.aliases();
  metadata.emplace("format", "pt");
  SafetensorsWriter writer(output.file(0), entries, metadata);
  for (const SafetensorsEntry& entry : entries) {
    const auto found = factors.find(entry.name);
    if (found == factors.end()) {
      writer.put_bytes(entry.name, files.find(entry.name).bytes);
    } else {
      writer.put_bytes(entry.name, scaled_tensor(checkpoint, entry.name, found->second).bytes);
    }
  }
  writer.close();
  output.file(1).write_at(0, config.dump(1) + "\n");
  output.commit();
  return done;
}

std::optional<nlohmann::json> config_with_eps(const Checkpoint& checkpoint, double eps) {
  for (const char* key : {"/rms_norm_eps", "/layer_norm_epsilon", "/layer_norm_eps", "/model/norm_eps"}) {
    const nlohmann::json::json_pointer at(key);
    nlohmann::json config = checkpoint.config();
    if (!config.contains(at.parent_pointer()) || !config[at.parent_pointer()].is_object()) continue;
    config[at] = eps;
    try {
      ConfigReader reader(config, checkpoint.folder());
      if (checkpoint.stack_of(reader, checkpoint.tensor_names()).model.norm_eps == eps) return config;
    } catch (const InputError&) {  // the family does not know the key
    }
  }
  return std::nullopt;
}

}  // namespace periscope
