#include "sim/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "sim/checkpoint/checkpoint_folder.h"
#include "sim/checkpoint/file_error.h"
#include "sim/checkpoint/strict_json.h"
#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// Constants stored by some versions of the public implementations: causal masks, RoPE frequencies, position ids.
constexpr std::array<std::string_view, 6> buffers{".attn.bias",           ".attn.masked_bias",
                                                  ".attention.bias",      ".attention.masked_bias",
                                                  ".rotary_emb.inv_freq", ".position_ids"};

const Family& family_of(const nlohmann::json& config, const std::string& path,
                        const std::vector<std::string>& ignored_keys, Checkpoint::Mixtures mixtures) {
  ConfigReader reader(config, path);
  reader.ignore(ignored_keys);
  const std::string type = reader.text("model_type");
  const Family* family = find_family(type);
  if (family == nullptr) {
    if (const std::string_view expected = expected_instead_of(type); !expected.empty()) {
      throw reader.unsupported_value("model_type", expected);
    }
    std::vector<std::string_view> all;
    for (const Family& known : family_table()) {
      if (!known.other_model_type.empty()) all.push_back(known.other_model_type);
      all.push_back(known.name);
    }
    all.emplace_back("periscope");
    throw reader.unsupported_value("model_type", fmt::format("one of {}", fmt::join(all, ", ")));
  }
  if (family->has_experts && mixtures == Checkpoint::Mixtures::rejected) {
    throw reader.unsupported_value(
        "model_type", "a family without mixtures of experts; only certify and info read them, from a folder");
  }
  if (!reader.has("architectures")) return *family;
  const std::vector<std::string> written = reader.texts("architectures");
  if (written.size() != 1 || std::ranges::count(family->architectures, written.front()) == 0) {
    throw reader.unsupported_value("architectures", fmt::format("one of {}", fmt::join(family->architectures, ", ")));
  }
  return *family;
}

std::vector<std::string> sorted(const std::vector<std::string>& words, const std::vector<std::string>& more = {}) {
  std::set<std::string> all(words.begin(), words.end());
  all.insert(more.begin(), more.end());
  return {all.begin(), all.end()};
}

/// Formats a shape as "[3, 4]".
std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

Checkpoint::Checkpoint(const std::string& folder, const std::vector<std::string>& ignore_keys, TiedCopies tied_copies,
                       Mixtures mixtures)
    : config_path_(config_file_of(folder)),
      config_file_(config_path_),
      config_(read_strict_json(config_file_)),
      ignored_keys_(sorted(ignore_keys)),
      family_(&family_of(config_, config_path_, ignored_keys_, mixtures)),
      files_(folder) {
  read_config();
  check_tensors(tied_copies);
  read_layer_scales(tied_copies);
}

Checkpoint::Checkpoint(std::shared_ptr<const MemoryModel> model, const std::vector<std::string>& ignore_keys,
                       TiedCopies tied_copies)
    : memory_(std::move(model)),
      config_path_(memory_->name + ": configuration"),
      config_file_(MappedFile::of_memory(config_path_, std::as_bytes(std::span(memory_->config)))),
      config_(read_strict_json(config_file_)),
      ignored_keys_(sorted(memory_->ignore_keys, ignore_keys)),
      family_(&family_of(config_, config_path_, ignored_keys_, Mixtures::rejected)),
      files_(*memory_) {
  read_config();
  check_tensors(tied_copies);
  read_layer_scales(tied_copies);
}

TensorNames Checkpoint::tensor_names() const { return {files_.names(), *family_, folder(), files_.aliases()}; }

FamilyStack Checkpoint::stack_of(ConfigReader& config, const TensorNames& names) const {
  config.set_counts(files_.counts());
  config.ignore(ignored_keys_);
  FamilyStack stack = family_->read(config, names);
  config.must_be("quantization_config", nullptr);
  config.finish();
  return stack;
}

void Checkpoint::read_config() {
  ConfigReader reader(config_, config_path_);
  const TensorNames names = tensor_names();
  stack_ = stack_of(reader, names);
  reader.require_ignored();
  defaults_ = reader.defaults();
  try {
    validate(token_stack(stack_.model));
  } catch (const ConfigError& error) {
    throw unsupported(config_path_, std::string("invalid stack: ") + error.what());
  }
  const auto stored = [&](const std::string& name) { return names.stored(name); };
  stack_.map.rename_tensors(stored);
  for (auto& [copy, original] : stack_.copies) {
    copy = stored(copy);
    original = stored(original);
  }
  for (std::string& tensor : stack_.unread) tensor = stored(tensor);
  for (std::string& tensor : stack_.layer_scales) tensor = stored(tensor);
  uses_ = stack_.map.uses(stack_.model);
  if (reader.has("auto_map")) {
    stack_.warnings.push_back(fmt::format("{}: custom code of auto_map is not run", config_path_));
  }
  for (const std::string& key : ignored_keys_) {
    stack_.warnings.push_back(fmt::format("key {} of config.json: ignored (--ignore-key)", in_quotes(key)));
  }
  stack_.warnings.insert(stack_.warnings.end(), files_.warnings().begin(), files_.warnings().end());
}

std::string Checkpoint::entry_name(const ParameterId& id, std::int64_t entry) const {
  const StoredPart* part = map().find(id);
  if (part == nullptr) return fmt::format("{}: entry {}", name_of(id), entry);  // an unstored gain, which is 1
  const std::vector<ParameterMap::Use>& uses = uses_.at(part->tensor);
  const auto is_part = [&](const ParameterMap::Use& use) { return use.part.first != part->first; };
  const std::string suffix = std::ranges::any_of(uses, is_part) ? fmt::format(" ({} part)", name_of(id.weight)) : "";
  const auto use = std::ranges::find(uses, id, &ParameterMap::Use::parameter);
  const std::int64_t index = stored_index(*use, entry, files_.find(part->tensor).shape.back());
  const std::string plus = part->plus != 0.0 ? fmt::format("{:g} + ", part->plus) : "";
  return fmt::format("{}{}: {}entry {}", part->tensor, suffix, plus, index);
}

void Checkpoint::check_tensors(TiedCopies tied_copies) {
  std::vector<std::string> missing;
  std::string first_missing;
  const auto require = [&](const std::string& tensor, const std::vector<std::int64_t>& shape,
                           const std::string& meaning) {
    if (files_.contains(tensor)) {
      check_shape(tensor, shape, meaning);
    } else {
      missing.push_back(fmt::format("\"{}\": expected {} ({})", tensor, shape_text(shape), meaning));
      if (missing.size() == 1) first_missing = tensor;
    }
  };
  for (const auto& [tensor, uses] : uses_) require(tensor, stored_shape(uses), name_of(uses.front().parameter));
  for (const std::string& tensor : stack_.layer_scales) require(tensor, {1}, "layer scale");
  for (const std::string& tensor : files_.names()) {
    if (uses_.contains(tensor) || std::ranges::count(stack_.layer_scales, tensor) > 0) continue;
    if (!is_known(tensor, tied_copies)) {
      const std::string absent = missing.empty() ? "" : fmt::format("; missing tensor: \"{}\"", first_missing);
      throw unsupported(files_.file_of(tensor),
                        fmt::format("tensor {} {}: unknown to family {} and may change the function{}",
                                    in_quotes(tensor), shape_text(files_.find(tensor).shape), family_->name, absent));
    }
    unused_.push_back(tensor);
  }
  if (missing.empty()) return;
  const std::string more = missing.size() > 1 ? fmt::format("; {} more are missing", missing.size() - 1) : "";
  throw malformed(folder(),
                  fmt::format("no tensor {}{}{}", missing.front(), more, nearest_name(first_missing, files_.names())));
}

void Checkpoint::read_layer_scales(TiedCopies tied_copies) {
  for (const std::string& tensor : stack_.layer_scales) {
    const double scale = files_.values(tensor).front();
    const bool is_valid = scale != 0.0 && std::isfinite(scale);
    if (!is_valid && tied_copies == TiedCopies::must_be_equal) {
      throw unsupported(files_.file_of(tensor),
                        fmt::format("tensor \"{}\": found {}, expected a finite number other than 0", tensor, scale));
    }
    stack_.model.layer_scales.push_back(is_valid ? scale : 1.0);
  }
}

void Checkpoint::check_shape(const std::string& tensor, const std::vector<std::int64_t>& expected,
                             const std::string& meaning) const {
  const SafetensorsView& view = files_.find(tensor);
  if (view.shape != expected) {
    throw malformed(files_.file_of(tensor), fmt::format("tensor \"{}\": shape {}, expected {} ({})", tensor,
                                                        shape_text(view.shape), shape_text(expected), meaning));
  }
  if (view.type > SafetensorsType::f8_e4m3) {
    throw unsupported(files_.file_of(tensor), fmt::format("tensor \"{}\": type {}, expected a floating-point type",
                                                          tensor, name_of(view.type)));
  }
}

bool Checkpoint::is_known(const std::string& tensor, TiedCopies tied_copies) const {
  const auto found = std::ranges::find(stack_.copies, tensor, &std::pair<std::string, std::string>::first);
  if (found != stack_.copies.end()) {
    const auto& [copy, original] = *found;
    const std::string property = tied_copies == TiedCopies::may_differ ? "" : difference(copy, original);
    if (property.empty()) return true;
    throw unsupported(
        files_.file_of(copy),
        fmt::format("tensors \"{}\" and \"{}\": expected equal tensors (tied by config.json), found a different {}",
                    copy, original, property));
  }
  if (std::ranges::count(stack_.unread, tensor) > 0) return true;
  return std::ranges::any_of(buffers, [&](std::string_view end) { return tensor.ends_with(end); }) ||
         is_of_other_part(tensor);
}

bool Checkpoint::is_of_other_part(const std::string& tensor) const {
  return std::ranges::any_of(family_->other_parts,
                             [plain = unwrapped(tensor)](std::string_view begin) { return plain.starts_with(begin); });
}

std::string Checkpoint::difference(const std::string& copy, const std::string& original) const {
  if (!files_.contains(copy) || !files_.contains(original)) return "";
  const SafetensorsView& view = files_.find(copy);
  if (view.shape != files_.find(original).shape) return "shape";
  constexpr std::uint64_t piece = 1 << 16;
  std::vector<double> a(piece), b(piece);
  const std::uint64_t count = count_of(view);
  for (std::uint64_t first = 0; first < count; first += piece) {
    const std::size_t size = std::min(piece, count - first);
    files_.read(copy, first, std::span(a).first(size));
    files_.read(original, first, std::span(b).first(size));
    if (std::memcmp(a.data(), b.data(), size * sizeof(double)) != 0) return "value";
  }
  return "";
}

}  // namespace periscope
