#include "experiments/probe/generate.h"

#include <algorithm>
#include <cmath>

#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "sim/spec/error.h"

namespace periscope::probe {

std::vector<int> generate_greedily(const StackContext& c, std::vector<int> ids, int count,
                                   const std::function<void(int)>& on_token) {
  for (int i = 0; i < count; ++i) {
    const Tensor output = stack_forward(c, embedding_forward(c, ids)).output;
    const std::vector<int> last{static_cast<int>(ids.size()) - 1};
    const std::vector<double> logits = c.ops.to_host(logits_forward(c, c.ops.gather(output, last)));
    if (std::ranges::any_of(logits, [](double z) { return std::isnan(z); })) {
      throw Error(ExitCode::runtime_failure, "generate: the model's logits are not numbers: no token is the likeliest");
    }
    ids.push_back(static_cast<int>(std::ranges::max_element(logits) - logits.begin()));
    on_token(ids.back());
  }
  return ids;
}

}  // namespace periscope::probe
