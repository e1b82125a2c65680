#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/threads.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

/// Every backward op by name, as numbers. Sizes are odd and span several of any reasonable piece of work.
std::vector<std::pair<std::string, std::function<Values()>>> all_backward_ops(const Target& target) {
  const Backend& ops = *target.backend;
  const Tensor x = normal_twin(target, 67, 516, 60).here;
  const Tensor y = normal_twin(target, 67, 516, 61).here;
  const Tensor w = normal_twin(target, 516, 1031, 62).here;
  const Tensor gain = normal_twin(target, 1, 129, 63).here;
  const Tensor kv = normal_twin(target, 67, 258, 64).here;
  const auto all = [&ops](std::initializer_list<Tensor> tensors) {
    Values values;
    for (const Tensor& t : tensors) {
      const Values more = ops.to_host(t);
      values.insert(values.end(), more.begin(), more.end());
    }
    return values;
  };
  std::vector<int> ids;
  for (int t = 0; t < 67; ++t) ids.push_back(t * t % 11);
  return {
      {"linear input", [=, &ops] { return all({ops.linear_backward_input(x, w)}); }},
      {"linear weight", [=, &ops] { return all({ops.linear_backward_weight(x, y)}); }},
      {"scatter_add", [=, &ops] { return all({ops.scatter_add(x, ids, 11)}); }},
      {"norm",
       [=, &ops] {
         const NormGradient g = ops.norm_backward(NormKind::layer, x, gain, y, 1e-6, 4);
         return all({g.dx, g.dgain, g.dbias});
       }},
      {"rope",
       [=, &ops] {
         return all({ops.rope_backward(x, 2, 1, rope_frequencies(static_cast<int>(x.cols()) / 2, 10000.0))});
       }},
      {"attention",
       [=, &ops] {
         const AttentionGradient g = ops.attention_backward(x, kv, kv, y, {4, 2, 129, 1, true});
         return all({g.dq, g.dk, g.dv});
       }},
      {"soft_cap", [=, &ops] { return all({ops.soft_cap_backward(1.5, x, y)}); }},
      {"activate", [=, &ops] { return all({ops.activate_backward(Activation::silu, x, y)}); }},
      {"gated",
       [=, &ops] {
         const GatedGradient g = ops.gated_backward(Activation::gelu, x, y, x);
         return all({g.dgate, g.dup});
       }},
      {"cross_entropy",
       [=, &ops] {
         const CrossEntropy c = ops.cross_entropy(x, ids);
         Values values = all({c.dlogits});
         values.push_back(c.loss);
         return values;
       }},
  };
}

TEST_CASE("every backward op gives the same bits for 1, 2 and 3 threads") {
  for (const Target& target : targets()) {
    for (const auto& [name, op] : all_backward_ops(target)) {
      const Values alone = [&op = op] {
        const Threads one(1);
        return op();
      }();
      for (const int count : {2, 3}) {
        const Threads several(count);
        check_same_bits(target.name() + " " + name + ", threads " + std::to_string(count), op(), alone);
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
