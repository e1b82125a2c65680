#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/targets.h"

namespace periscope::testing {

/// Inputs for every op, on one backend. Sizes are odd and span several of any reasonable piece of work.
struct OpInputs {
  const Backend& ops;
  DType dtype;
  Tensor x, y;  ///< [67, 516]
  Tensor w;     ///< [1031, 516]
  Tensor kv;    ///< [67, 258]
  Tensor row;   ///< [1, 516]
  Tensor gain;  ///< [1, 129]
};

/// The inputs on a target, and their rounded values on the reference.
OpInputs inputs_on(const Target& target);
OpInputs inputs_on_truth(const Target& target);

struct OpResult {
  std::vector<Tensor> tensors;
  std::vector<double> numbers{};
};

/// An op of the table as the tests call it.
struct OpCase {
  OpFacts op;
  std::function<OpResult(const OpInputs&)> run;
  /// Roundings behind an entry of the result, in the accumulation's type, times its condition: the sum of the
  /// magnitudes of its terms over the largest entry of the result.
  double terms;
  double condition;
  std::function<void(const OpInputs&)> misuse;  ///< a call with a shape or a number that does not fit
  std::string complaint;                        ///< what the op says to it
};

/// One per op.
const std::vector<OpCase>& op_cases();

/// All numbers of a result.
std::vector<double> values_of(const OpResult& result, const Backend& ops);
/// Allowed error relative to the largest entry of the result, against the reference.
double allowed_error(const OpCase& op_case, DType dtype);

}  // namespace periscope::testing
