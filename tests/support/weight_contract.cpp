#include "tests/support/weight_contract.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/support/compare.h"
#include "tests/support/targets.h"

namespace periscope::testing {
namespace {

constexpr int layers = 2;
constexpr std::array<int, 3> some_rows{2, 0, 2};
constexpr std::array sites{NormSite::a, NormSite::b,         NormSite::c,     NormSite::q,
                           NormSite::k, NormSite::embedding, NormSite::final, NormSite::head};

/// Numbers of one function's answer for one place.
Tensor numbers(Tensor::Index rows, Tensor::Index cols, std::uint64_t function, int where, std::uint32_t which) {
  return truth().normal(rows, cols, DType::f64, {function, static_cast<std::uint32_t>(where), which}, 1.0);
}

std::vector<double> host(const Tensor& x) { return x.empty() ? std::vector<double>{} : truth().to_host(x); }

}  // namespace

Tensor TellingWeights::matrix(int layer, Weight weight) const {
  return numbers(4, 3, 1, layer, static_cast<std::uint32_t>(weight));
}

Tensor TellingWeights::rows(const Backend& ops, Weight table, std::span<const int> ids) const {
  return rows_of_matrix(ops, table, ids);
}

Tensor TellingWeights::bias(int layer, Weight weight) const {
  return numbers(1, 4, 2, layer, static_cast<std::uint32_t>(weight));
}

NormWeights TellingWeights::norm(int sublayer, NormSite site) const {
  return {.gain = numbers(1, 4, 3, sublayer, static_cast<std::uint32_t>(site)),
          .bias = numbers(1, 4, 4, sublayer, static_cast<std::uint32_t>(site))};
}

void check_same_weights(const WeightSource& actual, const WeightSource& expected) {
  for (std::uint32_t w = 0; w < weight_names.size(); ++w) {
    const auto weight = static_cast<Weight>(w);
    for (int layer = 0; layer < (is_of_layer(weight) ? layers : 1); ++layer) {
      const std::string name(weight_names[w]);
      check_same_bits("matrix " + name, host(actual.matrix(layer, weight)), host(expected.matrix(layer, weight)));
      check_same_bits("bias " + name, host(actual.bias(layer, weight)), host(expected.bias(layer, weight)));
    }
    if (!is_table(weight)) continue;
    check_same_bits("rows", host(actual.rows(truth(), weight, some_rows)),
                    host(expected.rows(truth(), weight, some_rows)));
  }
  check_rows_of_tables(actual);
  for (int sublayer = 0; sublayer < 2 * layers; ++sublayer) {
    for (const NormSite site : sites) {
      const NormWeights a = actual.norm(sublayer, site);
      const NormWeights b = expected.norm(sublayer, site);
      check_same_bits("gain", host(a.gain), host(b.gain));
      check_same_bits("norm's bias", host(a.bias), host(b.bias));
    }
  }
}

void check_rows_of_tables(const WeightSource& weights) {
  for (const Weight table : {Weight::embedding, Weight::positions, Weight::token_types}) {
    check_same_bits("rows of a table", host(weights.rows(truth(), table, some_rows)),
                    host(truth().gather(weights.matrix(0, table), some_rows)));
  }
}

}  // namespace periscope::testing
