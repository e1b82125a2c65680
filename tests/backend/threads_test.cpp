#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/recorded_stack.h"
#include "tests/support/threads.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Values = std::vector<double>;

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

/// Every op by name, as numbers. Sizes are odd and span several of any reasonable piece of work.
std::vector<std::pair<std::string, std::function<Values()>>> all_ops(const Target& target) {
  const Backend& ops = *target.backend;
  const Tensor x = normal_twin(target, 67, 516, 50).here;
  const Tensor y = normal_twin(target, 67, 516, 51).here;
  const Tensor w = normal_twin(target, 1031, 516, 52).here;
  const Tensor gain = normal_twin(target, 1, 129, 53).here;
  const Tensor kv = normal_twin(target, 67, 258, 54).here;
  const auto host = [&ops](auto op) { return [&ops, op] { return ops.to_host(op()); }; };
  return {
      {"normal", host([&ops, dt = target.dtype] {
         return ops.normal(257, 1031, dt, {1, 2, 3}, 1.0);
       })},
      {"linear", host([&ops, x, w] { return ops.linear(x, w); })},
      {"axpby", host([&ops, x, y] { return ops.axpby(0.3, x, 0.7, y); })},
      {"scale", host([&ops, x] { return ops.scale(0.3, x); })},
      {"add_row", host([&ops, x] { return ops.add_row(x, ops.column_sums(x)); })},
      {"soft_cap", host([&ops, x] { return ops.soft_cap(1.5, x); })},
      {"gather", host([&ops, x] {
         return ops.gather(x, std::vector<int>{3, 66, 3});
       })},
      {"norm", host([&ops, x, gain] { return ops.norm(NormKind::layer, x, gain, gain, 1e-6, 4); })},
      {"rope",
       host([&ops, x] { return ops.rope(x, 2, 1, rope_frequencies(static_cast<int>(x.cols()) / 2, 10000.0)); })},
      {"attention", host([&ops, x, kv] {
         return ops.attention(x, kv, kv, {4, 2, 129, 1, true}).mixed;
       })},
      {"attention's scores", host([&ops, x, kv] {
         return ops.attention(x, kv, kv, {4, 2, 129, 1, true}).scores;
       })},
      {"activate", host([&ops, x] { return ops.activate(Activation::silu, x); })},
      {"gated", host([&ops, x, y] { return ops.gated(Activation::gelu, x, y); })},
      {"row_moments",
       [&ops, x] {
         const RowMoments m = ops.row_moments(x);
         Values all = m.mean;
         for (const Values* part : {&m.second_moment, &m.variance, &m.kurtosis, &m.maximum}) append(all, *part);
         return all;
       }},
      {"row_dots", [&ops, x, y] { return ops.row_dots(x, y); }},
      {"token_cosine", [&ops, x] { return Values{ops.token_cosine(x, 1)}; }},
      {"column_maxima", [&ops, x] { return ops.column_maxima(x); }},
      {"top_magnitudes", [&ops, x] { return ops.top_magnitudes(x, 100); }},
      {"token_losses",
       [&ops, x] { return ops.token_losses(x, std::vector<int>(static_cast<std::size_t>(x.rows()), 1)); }},
  };
}

TEST_CASE("every op gives the same bits for 1, 2 and 3 threads") {
  for (const Target& target : targets()) {
    for (const auto& [name, op] : all_ops(target)) {
      const Threads one(1);
      const Values alone = op();
      for (const int count : {2, 3}) {
        const Threads several(count);
        check_same_bits(target.name() + " " + name + ", threads " + std::to_string(count), op(), alone);
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
