#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "sim/spec/model_spec.h"
#include "tests/support/targets.h"

/// Random stacks for properties. Call inside a property: RapidCheck shrinks every choice.
namespace periscope::testing {

/// One of the values.
template <class T>
T any_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

/// low … high, both included.
int any_int(int low, int high);
/// low … high in steps of a hundredth of the range.
double any_number(double low, double high);
/// Seed for weights and input.
std::uint64_t any_seed();

/// Shapes that differ in every respect: 1–3 layers, width 8–24, 1–4 heads with any divisor for keys and
/// values, even head width, 1–7 tokens, any MLP, norm, mask, RoPE and QK-norm, gain 0.3–2, eps 0.
/// The placement is left to the property.
StackSpec any_stack();

/// The backends that compute in f64, the truth included: invariants hold there to 1e-12.
const std::vector<Target>& exact_targets();

/// Fails the running property unless |actual − expected| ≤ relative · max|expected|.
void assert_close(std::span<const double> actual, std::span<const double> expected, double relative);

/// stack_error for the spec's widest sum, with room for ill-conditioned norms of few features.
double rounding_of(const ModelSpec& model);

}  // namespace periscope::testing
