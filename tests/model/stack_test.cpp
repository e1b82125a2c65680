#include <algorithm>
#include <string>

#include "tests/model/plain_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/stack_table.h"
#include "tests/support/tolerances.h"

namespace periscope::testing {
namespace {

double allowed(const ModelSpec& m, DType dtype) {
  return stack_error(m.sublayers(), std::max({m.width, m.query_width(0), m.mlp_width}), dtype);
}

/// Compares every signal on every backend with plain loops, for random gains and biases.
void check_against_plain_loops(const std::string& what, const StackSpec& spec) {
  validate(spec);
  for (const Target& target : targets_and_truth()) {
    const Backend& ops = *target.backend;
    const GeneratedWeights drawn(ops, spec, target.dtype, 3);
    const EditedWeights weights(drawn, same_matrix, random_norms(ops));
    const Tensor input = gaussian_input(ops, spec, target.dtype, 3);
    const RecordedStack actual = record_stack({.ops = ops, .model = spec.model, .weights = weights}, input);
    const auto width = static_cast<std::size_t>(spec.model.width);
    const PlainRecord expected = plain_stack(spec.model, ops, weights, rows_of(ops.to_host(input), width));
    const double relative = allowed(spec.model, target.dtype);
    const std::string where = target.name() + " " + what;
    REQUIRE(actual.site.size() == expected.site.size());
    check_close_to_scale(where + ", input", actual.input, flat(expected.input), relative);
    for (const auto& [place, x] : expected.site) {
      const auto& [sublayer, site] = place;
      check_close_to_scale(where + ", sublayer " + std::to_string(sublayer) + " " + std::string(name_of(site)),
                           actual.at(sublayer, site), flat(x), relative);
    }
    check_close_to_scale(where + ", stream", actual.stream, flat(expected.stream), relative);
    check_close_to_scale(where + ", output", actual.output, flat(expected.output), relative);
  }
}

TEST_CASE("every kind of stack on every backend equals plain loops") {
  for (const NamedStack& stack : stacks_of_every_kind()) {
    // The plain loops do not implement default norms inside modules, channel scales and hyper-connections.
    constexpr std::array<std::string_view, 5> unsupported{"hybridnorm", "sub-ln", "ngpt", "layer-scale", "hyper"};
    if (std::ranges::find(unsupported, stack.spec.model.placement.name) != unsupported.end()) continue;
    check_against_plain_loops(stack.name, stack.spec);
  }
}

TEST_CASE("stacks of odd shapes equal plain loops: one layer, one head, one hidden feature, width 33, one token") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.layers = 1;
  spec.model.width = 33;
  spec.model.heads = 1;
  spec.model.kv_heads = 1;
  spec.model.head_dim = 2;
  spec.model.mlp_width = 1;
  for (const int tokens : {1, 2, 31}) {
    spec.input.tokens = tokens;
    check_against_plain_loops("tokens " + std::to_string(tokens), spec);
  }
}

}  // namespace
}  // namespace periscope::testing
