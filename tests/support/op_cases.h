#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/targets.h"

namespace periscope::testing {

/// Inputs for every op, on one backend. Sizes span several tiles of any kernel and are not multiples of a tile.
struct OpInputs {
  const Backend& ops;
  DType dtype;
  Tensor x, y;  ///< [67, 516]
  Tensor w;     ///< [1031, 516]
  Tensor kv;    ///< [67, 258]
  Tensor row;   ///< [1, 516]
  Tensor gain;  ///< [1, 129]
};

/// Returns the inputs on a target. `inputs_on_truth` returns the same rounded values on the reference backend.
OpInputs inputs_on(const Target& target);
OpInputs inputs_on_truth(const Target& target);

struct OpResult {
  OpResult(Tensor x) : tensors{std::move(x)} {}  // NOLINT(google-explicit-constructor): most ops return one tensor
  OpResult(std::vector<Tensor> all, std::vector<double> values = {})  // NOLINT(google-explicit-constructor)
      : tensors(std::move(all)), numbers(std::move(values)) {}
  std::vector<Tensor> tensors;
  std::vector<double> numbers;
};

struct OpCase {
  OpFacts op;
  std::function<OpResult(const OpInputs&)> run;
  /// Number of roundings per entry of the result, in the accumulation type.
  double terms;
  /// Sum of the magnitudes of an entry's terms, divided by the largest entry of the result.
  double condition;
  std::function<void(const OpInputs&)> misuse;  ///< call with an invalid shape or number
};

/// One case per op, in the order of the table.
const std::vector<OpCase>& op_cases();

std::vector<double> values_of(const OpResult& result, const Backend& ops);
/// Returns the allowed difference from the reference, relative to the largest entry of the result.
double allowed_error(const OpCase& op_case, DType dtype);

}  // namespace periscope::testing
