#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "sim/spec/model_spec.h"
#include "tests/support/targets.h"

/// Random stacks for RapidCheck properties. These functions may be called only inside a property.
namespace periscope::testing {

/// Picks one of the values.
template <class T>
T any_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

/// Picks an integer from low to high, inclusive.
int any_int(int low, int high);
/// Picks a number from low to high in steps of a hundredth of the range.
double any_number(double low, double high);
std::uint64_t any_seed();

/// Random shape and options: 1–3 layers, width 8–24, 1–4 heads with any divisor as key/value heads, even head width,
/// 1–7 tokens, any MLP, norm, mask, RoPE and QK-norm, gain 0.3–2, eps 0. The property chooses the placement.
StackSpec any_stack();

/// Backends that compute in f64, including the reference.
const std::vector<Target>& exact_targets();

/// Fails the running property unless |actual − expected| ≤ relative · max|expected|.
void assert_close(std::span<const double> actual, std::span<const double> expected, double relative);

/// Returns stack_error for the widest sum, with a larger gain for ill-conditioned norms of few features.
double rounding_of(const ModelSpec& model);

}  // namespace periscope::testing
