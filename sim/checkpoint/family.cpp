#include "sim/checkpoint/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/checkpoint/families/families.h"
#include "sim/checkpoint/file_error.h"

namespace periscope {
namespace {

const std::array table{llama_family(),  mistral_family(), qwen2_family(), qwen3_family(), gpt2_family(),
                       gemma2_family(), gemma3_family(),  olmo2_family(), bert_family(),  opt_family()};

/// Prefixes that programs put before the names of a stack's tensors.
constexpr std::array<std::string_view, 7> prefixes{
    "model.", "transformer.", "bert.", "language_model.model.", "model.language_model.", "language_model.", ""};

}  // namespace

std::span<const Family> family_table() { return table; }

const Family* find_family(std::string_view model_type) {
  static const Family own = own_family();
  if (model_type == own.name) return &own;
  const auto* const it = std::ranges::find_if(
      table, [&](const Family& family) { return std::ranges::count(family.model_types, model_type) > 0; });
  return it == table.end() ? nullptr : it;
}

const Family* family_named(std::string_view name) {
  const auto* const it = std::ranges::find(table, name, &Family::name);
  return it == table.end() ? nullptr : it;
}

TensorNames::TensorNames(std::vector<std::string> names, const Family& family, const std::string& where)
    : names_(std::move(names)), family_(family) {
  std::ranges::sort(names_);
  std::vector<std::string> found;
  for (const std::string_view prefix : prefixes) {
    if (has(std::string(prefix) + std::string(family.anchor))) found.emplace_back(prefix);
  }
  if (found.empty()) {
    throw malformed(where, fmt::format("no tensor \"{}{}\", nor one with another of the prefixes \"{}\"", family.body,
                                       family.anchor, fmt::join(prefixes, "\", \"")));
  }
  if (found.size() > 1) {
    throw unsupported(
        where, fmt::format("several models: tensors \"{0}{2}\" and \"{1}{2}\"", found[0], found[1], family.anchor));
  }
  prefix_ = found.front();
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

bool TensorNames::has(const std::string& name) const { return std::ranges::binary_search(names_, name); }

std::string TensorNames::stored(const std::string& name) const {
  const bool of_body = name.starts_with(family_.body);
  const std::string own = of_body ? prefix_ + name.substr(family_.body.size()) : name;
  if (has(own)) return own;
  for (const auto& [today, older] : family_.aliases) {
    if (!own.ends_with(today)) continue;
    const std::string other = own.substr(0, own.size() - today.size()) + std::string(older);
    if (has(other)) return other;
  }
  const std::string nested = "language_model." + own;
  return !of_body && has(nested) ? nested : own;
}

}  // namespace periscope
