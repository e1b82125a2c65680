#include "experiments/common/stack_result.h"

#include <algorithm>

namespace periscope {

bool any_disagrees(const std::vector<StackResult>& results) {
  return std::ranges::any_of(results, [](const StackResult& r) { return r.agreement.verdict == Verdict::disagrees; });
}

}  // namespace periscope
