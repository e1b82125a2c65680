#include "sim/checkpoint/scaled_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "sim/checkpoint/exact_bytes.h"
#include "sim/checkpoint/safetensors_writer.h"
#include "sim/files/output_folder.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// What a tensor is multiplied by, and what is added to it before (1 of gains that are stored as w of 1 + w).
struct TensorFactor {
  double factor = 1.0;
  double plus = 0.0;
};

TensorFactor factor_of_uses(const std::string& tensor, const std::vector<ParameterMap::Use>& uses,
                            const FactorOfParameter& factor) {
  const TensorFactor first{factor(uses.front().parameter), uses.front().part.plus};
  for (const ParameterMap::Use& use : uses) {
    if (factor(use.parameter) == first.factor && use.part.plus == first.plus) continue;
    throw std::logic_error(fmt::format("tensor \"{}\" has parameters of different factors", tensor));
  }
  return first;
}

/// A gain of 1 that no tensor holds cannot become another.
void require_stored_gains(const Checkpoint& checkpoint, const FactorOfParameter& factor) {
  for (const ParameterId& gain : gains_of(checkpoint.model())) {
    if (factor(gain) == 1.0 || checkpoint.map().find(gain) != nullptr) continue;
    throw ConfigError(fmt::format("{}: {} is not stored, so it cannot be multiplied by {:g}", checkpoint.folder(),
                                  name_of(gain), factor(gain)));
  }
}

/// The factors of all tensors that do not stay as they are.
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

/// Makes x of stored numbers (x + plus)·factor − plus, and counts those that the last step rounds.
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
    // An exact sum gives back each of its terms.
    if (whole - f.plus != x || whole - x != f.plus || stored + f.plus != y || y - stored != f.plus) ++rounded;
    x = stored;
  }
  return rounded;
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
  throw std::logic_error("a double that f64 does not hold");
}

/// Sets the last of `keys`, each inside the object of the one before.
void set_key(nlohmann::json& object, const std::vector<std::string>& keys, double value) {
  nlohmann::json* at = &object;
  for (const std::string& key : keys) at = &(*at)[key];
  *at = value;
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
  const std::array<std::vector<std::string>, 4> places{
      {{"rms_norm_eps"}, {"layer_norm_epsilon"}, {"layer_norm_eps"}, {"model", "norm_eps"}}};
  const Family& family = checkpoint.family();
  for (const std::vector<std::string>& keys : places) {
    nlohmann::json config = checkpoint.config();
    if (keys.size() > 1 && !(config.contains(keys.front()) && config[keys.front()].is_object())) continue;
    set_key(config, keys, eps);
    try {
      ConfigReader reader(config, checkpoint.folder());
      reader.set_stored(checkpoint.files().counts());
      reader.ignore(checkpoint.ignored_keys());
      const TensorNames names(checkpoint.files().names(), family, checkpoint.folder(), checkpoint.files().aliases());
      const FamilyStack stack = family.read(reader, names);
      reader.must_be("quantization_config", nullptr);
      reader.finish();
      if (stack.model.norm_eps == eps) return config;
    } catch (const InputError&) {  // the family does not know the key
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace periscope
