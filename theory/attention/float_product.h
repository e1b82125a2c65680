#pragma once

#include <cstddef>
#include <span>

/// Matrix products in float of a few hundred rows and columns, which are most of the work of sampled patterns, with
/// factors of which half may be zeros. Nothing here sees Eigen: the loops are compiled once for each instruction set.
namespace periscope::theory {

/// Where a factor is 0, so that a product may leave its terms out.
enum class Zeros { none, above_diagonal, below_diagonal };

/// A factor as it lies in memory: entry (i, j) is data[i·row_step + j·column_step], and one of the two steps is 1.
struct FloatFactor {
  const float* data;
  std::ptrdiff_t rows, columns;
  std::ptrdiff_t row_step, column_step;
  Zeros zeros = Zeros::none;
};

/// c ← weight·a·b, or c + weight·a·b, where the columns of c are c_column_step apart. Every entry is one chain of fused
/// multiply-adds over a's columns from 0 on, multiplied by the weight: it has the same bits whatever the instruction
/// set that has them, and whatever the other rows and columns.
struct FloatProduct {
  FloatFactor a, b;
  float* c;
  std::ptrdiff_t c_column_step;
  /// Entries above the diagonal are not needed: they become products or 0, or, with `adds`, are anything finite.
  bool lower_only = false;
  bool adds = false;
  float weight = 1.0F;
};

/// The products as compiled for one instruction set.
using MultiplyFloats = void (*)(const FloatProduct&);
struct FloatProductLevel {
  int processor;  ///< the processor_level that it needs; 0 where nothing is known of it
  MultiplyFloats (*function)();
};

/// Returns the levels of this build, the least demanding first.
std::span<const FloatProductLevel> float_product_levels();

/// Computes a product with the most demanding instructions that this processor has. Any thread may call it.
void multiply(const FloatProduct& product);

}  // namespace periscope::theory
