#pragma once

#include <string>
#include <vector>

#include "experiments/engine/settings/toml_reader.h"
#include "sim/spec/model_spec.h"

namespace periscope::config {

/// Reads model.placement, which is given: a name, a table {name, A, B, C, alpha, beta}, or a table {name, attention,
/// mlp} of two of these. Throws ConfigError.
Placement read_placement(TomlReader& model);

/// Reads model.layer_placement: a list of tables {layers = "0-7", placement = …}. Throws ConfigError.
std::vector<LayerPlacement> read_layer_placements(TomlReader& model, const std::string& file);

}  // namespace periscope::config
