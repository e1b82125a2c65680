#pragma once

#include <cstddef>
#include <span>

/// Float matrix products of a few hundred rows and columns, the main cost of sampled patterns. Factors may be
/// triangular. Independent of Eigen, because the loops are compiled once per instruction set.
namespace periscope::theory {

/// Region in which all entries of a factor are 0; products skip them.
enum class Zeros { none, above_diagonal, below_diagonal };

/// A strided factor: entry (i, j) is data[i·row_step + j·column_step]. One of the two steps must be 1.
struct FloatFactor {
  const float* data;
  std::ptrdiff_t rows, columns;
  std::ptrdiff_t row_step, column_step;
  Zeros zeros = Zeros::none;
};

/// The product c ← weight·a·b or, with `accumulate`, c ← c + weight·a·b; columns of c are c_column_step apart. Every
/// entry is one chain of fused multiply-adds over the columns of a in ascending order, times the weight. Its bits
/// therefore do not depend on the instruction set (if it has FMA) or on other rows and columns.
struct FloatProduct {
  FloatFactor a, b;
  float* c;
  std::ptrdiff_t c_column_step;
  /// Computes only the lower triangle. Entries above the diagonal are finite but unspecified.
  bool lower_only = false;
  bool accumulate = false;
  float weight = 1.0F;
};

/// An implementation of the product, compiled for one instruction set.
using MultiplyFloats = void (*)(const FloatProduct&);
struct FloatProductLevel {
  int processor;  ///< required processor_level; 0 on architectures without levels
  MultiplyFloats (*function)();
};

/// Returns the implementations of this build, from the lowest to the highest level.
std::span<const FloatProductLevel> float_product_levels();

/// Computes a product with the highest level that the processor supports. Thread-safe.
void multiply(const FloatProduct& product);

}  // namespace periscope::theory
