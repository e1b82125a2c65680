#include "sim/model/parameters.h"

#include <stdexcept>

namespace periscope {

std::vector<MatrixPlace> matrices_of(const StackSpec& spec) {
  std::vector<MatrixPlace> all;
  const ModelSpec& m = spec.model;
  if (spec.input.kind != InputKind::gaussian) {
    all.push_back({0, Weight::embedding});
    if (m.projects_embedding()) all.push_back({0, Weight::project_in});
    if (m.embedding.positions > 0) all.push_back({0, Weight::positions});
    if (m.embedding.token_types > 0) all.push_back({0, Weight::token_types});
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    for (const Weight weight : {Weight::q, Weight::k, Weight::v, Weight::o}) all.push_back({layer, weight});
    if (is_gated(m.mlp)) all.push_back({layer, Weight::gate});
    for (const Weight weight : {Weight::up, Weight::down}) all.push_back({layer, weight});
  }
  if (!m.unembedding) return all;
  if (m.projects_embedding()) all.push_back({0, Weight::project_out});
  if (m.head.transform) all.push_back({0, Weight::head_dense});
  all.push_back({0, Weight::unembedding});
  return all;
}

std::vector<NormPlace> norms_of(const ModelSpec& m) {
  std::vector<NormPlace> all;
  if (m.embedding_norm) all.push_back({0, NormSite::embedding});
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerRule rule = m.rule(l);
    if (rule.norm_a) all.push_back({l, NormSite::a});
    if (ModelSpec::is_attention(l) && m.qk_norm != QkNorm::none) {
      all.push_back({l, NormSite::q});
      all.push_back({l, NormSite::k});
    }
    if (rule.norm_b) all.push_back({l, NormSite::b});
    if (rule.norm_c) all.push_back({l, NormSite::c});
  }
  if (m.final_norm) all.push_back({m.sublayers(), NormSite::final});
  if (m.unembedding && m.head.transform) all.push_back({m.sublayers(), NormSite::head});
  return all;
}

namespace {

std::string stem_of(MatrixPlace place) {
  const std::string name(weight_names[static_cast<std::size_t>(place.weight)]);
  if (!is_of_layer(place.weight)) return name;
  const bool mlp = place.weight == Weight::gate || place.weight == Weight::up || place.weight == Weight::down;
  return "layers." + std::to_string(place.layer) + (mlp ? ".mlp." : ".attention.") + name;
}

}  // namespace

std::string name_of(MatrixPlace place) { return stem_of(place) + ".weight"; }
std::string bias_name_of(MatrixPlace place) { return stem_of(place) + ".bias"; }

std::string name_of(NormPlace place) {
  const std::string module = ModelSpec::is_attention(place.sublayer) ? ".attention." : ".mlp.";
  const std::string sublayer = "layers." + std::to_string(place.sublayer / 2) + module;
  switch (place.site) {
    case NormSite::a: return sublayer + "norm_a";
    case NormSite::b: return sublayer + "norm_b";
    case NormSite::c: return sublayer + "norm_c";
    case NormSite::q: return sublayer + "q_norm";
    case NormSite::k: return sublayer + "k_norm";
    case NormSite::embedding: return "embedding_norm";
    case NormSite::final: return "final_norm";
    case NormSite::head: return "head_norm";
  }
  throw std::logic_error("unknown norm site");
}

}  // namespace periscope
