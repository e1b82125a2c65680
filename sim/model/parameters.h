#pragma once

#include <string>
#include <vector>

#include "sim/model/weights.h"

namespace periscope {

/// Arguments of WeightSource::matrix and WeightSource::norm that name one parameter of a stack.
struct MatrixPlace {
  int layer;
  Weight weight;
};
struct NormPlace {
  int sublayer;
  NormSite site;
};

/// Every matrix that the stack uses, from its input to its output; the embedding table only for token input.
std::vector<MatrixPlace> matrices_of(const StackSpec& spec);
/// Every norm that the stack uses.
std::vector<NormPlace> norms_of(const ModelSpec& model);

/// Names as in files: "layers.3.mlp.down.weight", "embedding.weight". A norm's name, "layers.3.attention.norm_a"
/// or "final_norm", is followed by ".gain" or ".bias".
std::string name_of(MatrixPlace place);
/// "layers.3.mlp.down.bias".
std::string bias_name_of(MatrixPlace place);
std::string name_of(NormPlace place);

}  // namespace periscope
