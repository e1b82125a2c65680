#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "experiments/engine/result/dataset.h"

namespace periscope::ledger {

/// A small result: q[placement, seed, depth] = (1 + p)·(d + 1) + s/10 for placement p, seed s and depth d, where the
/// last depth of placement 1 is missing; texts on placement and on a dimension without coordinate.
inline dataset::Dataset small_result() {
  const std::vector<std::string> placements{"pre", "peri, qk_norm full"};
  std::vector<double> q;
  for (int p = 0; p < 2; ++p) {
    for (int s = 0; s < 3; ++s) {
      for (int d = 0; d < 4; ++d) q.push_back(p == 1 && d == 3 ? std::nan("") : (1.0 + p) * (d + 1.0) + s / 10.0);
    }
  }
  dataset::Dataset data;
  data.dimensions = {{"placement", 2}, {"seed", 3}, {"depth", 4}, {"case", 2}};
  data.columns = {
      {"placement", {"placement"}, placements, "", ""},
      {"seed", {"seed"}, std::vector<std::int64_t>{0, 1, 2}, "1", ""},
      {"depth", {"depth"}, std::vector<std::int64_t>{0, 1, 2, 3}, "1", ""},
      {"q", {"placement", "seed", "depth"}, q, "1", ""},
      {"verdict", {"placement"}, std::vector<std::string>{"agrees", "disagrees"}, "", ""},
      {"kind", {"case"}, std::vector<std::string>{"weak", "strong"}, "", "", true},
      {"rate", {"case"}, std::vector<double>{0.5, 2.0}, "1", ""},
  };
  return data;
}

}  // namespace periscope::ledger
