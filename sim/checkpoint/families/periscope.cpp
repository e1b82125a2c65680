#include "sim/base/parse_integer.h"
#include "sim/checkpoint/families/families.h"
#include "sim/model/parameters.h"
#include "sim/spec/read_keys.h"
#include "sim/spec/stack_keys.h"

namespace periscope {
namespace {

/// Reads a checkpoint that `train` writes for a stack that no public family supports. config.json contains the sections
/// [model], [init], [input] and [train] of the configuration. Parameters are named by name_of (as in `propagate
/// --dump`).
FamilyStack read_periscope(ConfigReader& config, const TensorNames& names) {
  config.harmless({"model_type", "init", "input", "train"});
  ConfigReader model = config.table("model");
  FamilyStack stack;
  ModelSpec& m = stack.model;
  (void)read_layers(model, "layers");
  read_keys(model, model_section, m);
  m.placement = read_placement(model);
  m.layer_placements = read_layer_placements(model);
  model.finish();
  for (const Key<ModelSpec>& key : model_section.keys) {
    const auto* size = std::get_if<int ModelSpec::*>(&key.field);
    if (size == nullptr || key.range.contains(m.**size)) continue;
    model.fail(key.name, integer_range_text(static_cast<int>(key.range.low), static_cast<int>(key.range.high)));
  }
  m.unembedding = m.unembedding && names.contains("unembedding.weight");
  const StackSpec tokens = token_stack(m);
  for (const ParameterId& id : matrices_of(tokens)) stack.map.set(id.layer(), id.weight, whole(name_of(id)));
  for (const ParameterId& id : gains_of(m)) {
    const NormFacts& facts = facts_of(kind_of(m, id.weight));
    StoredNorm norm{whole(name_of(id)), {}};
    if (facts.has_bias) norm.bias = whole(name_of(bias_of(id)));
    if (facts.has_alpha()) norm.alpha = whole(name_of(alpha_of(id)));
    stack.map.set_norm(id.sublayer, id.weight, norm);
  }
  return stack;
}

}  // namespace

Family periscope_family() {
  return {.name = "periscope",
          .architectures = {},
          .body = "",
          .anchor = "embedding.weight",
          .read = read_periscope,
          .write = nullptr};
}

}  // namespace periscope
