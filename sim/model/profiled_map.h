#pragma once

#include <memory>

#include "sim/model/linear_map.h"
#include "sim/spec/weight_scales.h"

namespace periscope {

/// The matrix W_ij = rows_i·Z_ij·columns_j of a variance profile (T29) over a matrix Z [m, n], which need not exist:
///   y = rows∘((x∘columns) Zᵀ),  dx = ((dy∘rows) Z)∘columns,
/// so that Z may be drawn in products, or have no entries at all (T21). An empty profile gives `z` itself. `ops`
/// outlives the map.
[[nodiscard]] std::shared_ptr<const LinearMap> profiled_map(const Backend& ops, DType dtype,
                                                            std::shared_ptr<const LinearMap> z,
                                                            VarianceProfile profile);

}  // namespace periscope
