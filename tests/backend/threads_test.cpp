#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/op_cases.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/threads.h"

namespace periscope::testing {
namespace {

TEST_CASE("every op gives the same bits for 1, 2 and 3 threads") {
  for (const Target& target : targets()) {
    const OpInputs in = inputs_on(target);
    for (const OpCase& c : op_cases()) {
      const auto run = [&](int count) {
        const Threads threads(count);
        return values_of(c.run(in), in.ops);
      };
      const std::vector<double> alone = run(1);
      for (const int count : {2, 3}) {
        check_same_bits(target.name() + " " + std::string(c.op.name) + ", threads " + std::to_string(count), run(count),
                        alone);
      }
    }
  }
}

TEST_CASE("a whole stack gives the same bits for 1, 2 and 3 threads") {
  StackSpec spec = placed(tiny_stack(), "peri");
  spec.model.width = 130;
  spec.model.heads = 3;
  spec.model.kv_heads = 3;
  spec.model.head_dim = 34;
  spec.model.mlp_width = 515;
  spec.model.qk_norm = QkNorm::head;
  spec.input.tokens = 67;
  validate(spec);
  for (const Target& target : targets()) {
    const auto run = [&](int count) {
      const Threads threads(count);
      return record_stack(target, spec, 1);
    };
    const RecordedStack alone = run(1);
    for (const int count : {2, 3}) {
      const RecordedStack several = run(count);
      const std::string what = target.name() + ", threads " + std::to_string(count);
      for (const auto& [place, values] : alone.site) {
        check_same_bits(what + ", sublayer " + std::to_string(place.first), several.site.at(place), values);
      }
      check_same_bits(what + ", output", several.output, alone.output);
    }
  }
}

TEST_CASE("a run is repeatable bit for bit") {
  for (const Target& target : targets()) {
    const StackSpec spec = placed(tiny_stack(), "peri");
    check_same_bits(target.name(), record_stack(target, spec, 1).output, record_stack(target, spec, 1).output);
    CHECK(record_stack(target, spec, 1).output != record_stack(target, spec, 2).output);
  }
}

}  // namespace
}  // namespace periscope::testing
