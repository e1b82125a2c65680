#include "tests/support/weight_contract.h"

#include <array>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

constexpr int sublayers = 4;
constexpr std::array<int, 3> some_rows{2, 0, 2};

/// Returns random numbers that differ by part, sublayer and weight.
Tensor numbers(Tensor::Index rows, Tensor::Index cols, std::uint64_t part, int sublayer, Weight weight) {
  const auto place = static_cast<std::uint32_t>(sublayer + 1);
  return truth().normal(rows, cols, DType::f64, {part, place, stream_of(weight)}, 1.0);
}

std::vector<double> host(const Tensor& x) { return x.empty() ? std::vector<double>{} : truth().to_host(x); }

}  // namespace

SublayerWeights DistinctWeights::fetch(int sublayer) const {
  SublayerWeights all;
  for (std::size_t w = 0; w < weight_names.size(); ++w) {
    const auto weight = static_cast<Weight>(w);
    const Tensor bias = numbers(1, 4, 2, sublayer, weight);
    if (is_norm(weight)) {
      all.norms[weight] = {numbers(1, 4, 3, sublayer, weight), bias};
    } else {
      all.linear[weight] = {dense_map([=] { return numbers(4, 3, 1, sublayer, weight); }), bias};
    }
  }
  return all;
}

void check_same_weights(const WeightSource& actual, const WeightSource& expected) {
  for (int l = -1; l <= sublayers; ++l) {
    const SublayerWeights a = actual.fetch(l);
    const SublayerWeights e = expected.fetch(l);
    REQUIRE(a.linear.size() == e.linear.size());
    REQUIRE(a.norms.size() == e.norms.size());
    for (const auto& [weight, linear] : e.linear) {
      const std::string name(name_of(weight));
      check_same_bits("matrix " + name, host(a.matrix(weight).map->dense()), host(linear.map->dense()));
      check_same_bits("bias " + name, host(a.matrix(weight).bias), host(linear.bias));
    }
    for (const auto& [weight, norm] : e.norms) {
      const std::string name(name_of(weight));
      check_same_bits("gain " + name, host(a.norm(weight).gain), host(norm.gain));
      check_same_bits("bias " + name, host(a.norm(weight).bias), host(norm.bias));
    }
  }
  for (const Weight table : {Weight::embedding, Weight::positions, Weight::token_types}) {
    check_same_bits("rows", host(actual.rows(truth(), table, some_rows)),
                    host(expected.rows(truth(), table, some_rows)));
  }
  check_rows_of_tables(actual);
}

void check_rows_of_tables(const WeightSource& weights) {
  for (const Weight table : {Weight::embedding, Weight::positions, Weight::token_types}) {
    check_same_bits("rows of a table", host(weights.rows(truth(), table, some_rows)),
                    host(truth().gather(weights.fetch(-1).matrix(table).map->dense(), some_rows)));
  }
}

}  // namespace periscope::testing
