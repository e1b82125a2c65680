#include "sim/checkpoint/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/file_error.h"

namespace periscope {
namespace {

const std::array table{llama_family(),    mistral_family(), qwen2_family(), qwen3_family(), gpt2_family(),
                       gemma2_family(),   gemma3_family(),  olmo2_family(), bert_family(),  opt_family(),
                       gpt_neox_family(), granite_family(), phi3_family(),  glm4_family(),  olmo3_family(),
                       smollm3_family(),  gemma4_family()};

/// Prefixes of a stack's tensor names in files that different programs write.
constexpr std::array<std::string_view, 8> prefixes{
    "model.", "transformer.", "bert.", "gpt_neox.", "language_model.model.", "model.language_model.", "language_model.",
    ""};

/// Prefixes of modules that wrap a whole model. torch.compile also wraps parts of a model.
constexpr std::array<std::string_view, 2> outer_wrappers{"module.", "base_model.model."};
constexpr std::string_view compile_wrapper = "_orig_mod.";

/// Substrings of tensor names in PEFT adapters and in the layers they modify.
constexpr std::array<std::string_view, 3> adapter_marks{".lora_", ".base_layer.", ".modules_to_save."};

void reject_adapter(const std::vector<std::string>& names, const std::string& where) {
  for (const std::string& name : names) {
    const auto is_in = [&](std::string_view mark) { return name.find(mark) != std::string::npos; };
    if (std::ranges::none_of(adapter_marks, is_in)) continue;
    throw unsupported(where,
                      fmt::format("tensor {}: belongs to an unmerged adapter; {}", in_quotes(name), merge_advice));
  }
}

}  // namespace

std::string unwrapped(std::string_view name) {
  const auto strip = [&](std::string_view wrapper) {
    const bool found = name.starts_with(wrapper);
    if (found) name.remove_prefix(wrapper.size());
    return found;
  };
  while (strip(compile_wrapper) || std::ranges::any_of(outer_wrappers, strip)) {
  }
  std::string rest;
  for (std::size_t at = 0; at < name.size();) {
    if (name.substr(at).starts_with(compile_wrapper) && name[at - 1] == '.') {
      at += compile_wrapper.size();
    } else {
      rest += name[at++];
    }
  }
  return rest;
}

std::span<const Family> family_table() { return table; }

std::string_view expected_instead_of(std::string_view model_type) {
  constexpr std::array<std::string_view, 6> mixtures{"qwen2_moe", "granitemoe", "olmoe",
                                                     "phimoe",    "glm4_moe",   "gpt_oss"};
  return std::ranges::count(mixtures, model_type) > 0
             ? "a family without mixtures of experts; only certify and info read mixtral and qwen3_moe"
             : "";
}

const Family* find_family(std::string_view model_type) {
  static const std::array others{periscope_family(), mixtral_family(), qwen3_moe_family()};
  const auto is_type = [&](const Family& family) {
    return family.name == model_type || family.other_model_type == model_type;
  };
  const auto* const other = std::ranges::find_if(others, is_type);
  if (other != others.end()) return other;
  const auto* const it = std::ranges::find_if(table, is_type);
  return it == table.end() ? nullptr : it;
}

const Family* family_named(std::string_view name) {
  const auto* const it = std::ranges::find(table, name, &Family::name);
  return it == table.end() ? nullptr : it;
}

TensorNames::TensorNames(std::vector<std::string> names, const Family& family, const std::string& where,
                         const std::map<std::string, std::string>& aliases)
    : family_(family) {
  reject_adapter(names, where);
  const auto several = [&](const std::string& one, const std::string& other) {
    return unsupported(
        where, fmt::format("expected one model, found two: tensors {} and {}", in_quotes(one), in_quotes(other)));
  };
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const auto [other, is_new] = names_.emplace(unwrapped(name), name);
    if (!is_new) throw several(other->second, name);
  }
  for (const auto& [alias, name] : aliases) names_.emplace(unwrapped(alias), name);
  std::vector<std::string> found;
  for (const std::string_view prefix : prefixes) {
    if (has(std::string(prefix) + std::string(family.anchor))) found.emplace_back(prefix);
  }
  if (found.size() > 1) {
    const std::string anchor(family.anchor);
    throw several(names_.at(found[0] + anchor), names_.at(found[1] + anchor));
  }
  // If the embedding is missing or has the name of the head, the first layer's names determine the prefix.
  for (const std::string_view prefix : prefixes) {
    const std::string begin = std::string(prefix) + std::string(family.first_layer);
    const auto layer = names_.lower_bound(begin);
    if (found.empty() && layer != names_.end() && layer->first.starts_with(begin)) found.emplace_back(prefix);
  }
  if (found.empty()) {
    const std::string anchor = std::string(family.body) + std::string(family.anchor);
    throw malformed(where, fmt::format("no tensor \"{}\" with one of the prefixes \"{}\"{}", family.anchor,
                                       fmt::join(prefixes, "\", \""), nearest_name(anchor, std::move(names))));
  }
  prefix_ = found.front();
  const std::string& first = names.front();
  const std::string bare = unwrapped(first);
  if (first.ends_with(bare)) wrapper_ = first.substr(0, first.size() - bare.size());
}

TensorNames written_names(const Family& family, bool unembedding) {
  std::vector<std::string> names{std::string(family.body) + std::string(family.anchor)};
  if (unembedding) {
    for (const char* head : {"lm_head.weight", "cls.predictions.bias", "cls.predictions.decoder.bias",
                             "cls.predictions.decoder.weight", "cls.predictions.transform.dense.weight"}) {
      names.emplace_back(head);
    }
  }
  return {std::move(names), family, "written config.json"};
}

std::string TensorNames::stored(const std::string& name) const {
  const std::string own = plain(name);
  const auto it = names_.find(own);
  return it == names_.end() ? wrapper_ + own : it->second;
}

std::string TensorNames::plain(const std::string& name) const {
  const bool of_body = name.starts_with(family_.body);
  const std::string own = of_body ? prefix_ + name.substr(family_.body.size()) : name;
  if (has(own)) return own;
  for (const auto& [current, older] : family_.aliases) {
    if (!own.ends_with(current)) continue;
    const std::string other = own.substr(0, own.size() - current.size()) + std::string(older);
    if (has(other)) return other;
  }
  const std::string nested = "language_model." + own;
  return !of_body && has(nested) ? nested : own;
}

}  // namespace periscope
