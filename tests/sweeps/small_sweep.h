#pragma once

#include "experiments/sweeps/gather.h"

namespace periscope::testing {

/// Draft of a sweep of `theory` over stacks of width 8: model.layers 1, 2, 3 by model.placement pre, peri.
inline sweeps::Draft small_draft() {
  sweeps::Draft draft{.study = "theory", .flags = {}, .base = {}, .axes = {}};
  draft.base = config::read_tree("", {"model.width=8", "model.heads=2", "model.vocab=20", "model.mlp_width=12",
                                      "input.tokens=3", "init.scheme=lecun", "theory.replicates=4"});
  draft.axes = {{{{"model.layers", {1, 2, 3}}}}, {{{"model.placement", {"pre", "peri"}}}}};
  return draft;
}

inline std::vector<sweeps::CellId> ids_of(const sweeps::Draft& draft) {
  stacks::Progress progress;
  return sweeps::ids_of_cells(sweeps::GridPlan(draft), "", progress).ids;
}

}  // namespace periscope::testing
