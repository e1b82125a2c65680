// Implements theory/attention/float_product.h for the instruction set that it is compiled for. c is split into tiles
// whose sums stay in registers. A tile is two SIMD vectors high. Panels of a are copied to contiguous memory; every
// term multiplies two of their vectors by scalars of b.

#include <algorithm>
#include <cstring>
#include <memory>

#include "theory/attention/float_product.h"

namespace periscope::theory {
namespace {

using Index = std::ptrdiff_t;

#if defined(__AVX512F__)
constexpr Index lanes = 16;
constexpr Index tile_columns = 8;
#else
constexpr Index lanes = 8;
constexpr Index tile_columns = 6;
#endif
constexpr Index panel_rows = 2 * lanes;

typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef float UnalignedVector __attribute__((vector_size(4 * lanes), aligned(4), may_alias));

struct Range {
  Index begin, end;
};

/// Returns the range of k for which a(i, k) may be nonzero in rows i = first … first + count − 1.
Range terms_of_rows(Zeros zeros, Index first, Index count, Index depth) {
  return {zeros == Zeros::below_diagonal ? std::min(first, depth) : 0,
          zeros == Zeros::above_diagonal ? std::min(first + count, depth) : depth};
}

/// Returns the range of k for which b(k, j) may be nonzero in columns j = first … first + count − 1.
Range terms_of_columns(Zeros zeros, Index first, Index count, Index depth) {
  return {zeros == Zeros::above_diagonal ? std::min(first, depth) : 0,
          zeros == Zeros::below_diagonal ? std::min(first + count, depth) : depth};
}

Range intersection(Range x, Range y) {
  const Index begin = std::max(x.begin, y.begin);
  return {begin, std::max(begin, std::min(x.end, y.end))};
}

/// Copies entry (first + i, k) of a to panel[k·panel_rows + i] for `rows` rows; the other rows become 0.
void copy_panel(const FloatFactor& a, Index first, Index rows, Range terms, float* panel) {
  const float* const from = a.data + first * a.row_step;
  if (a.row_step == 1 && rows == panel_rows) {
    for (Index k = terms.begin; k < terms.end; ++k) {
      const float* const column = from + k * a.column_step;
      *reinterpret_cast<UnalignedVector*>(panel + k * panel_rows) = *reinterpret_cast<const UnalignedVector*>(column);
      *reinterpret_cast<UnalignedVector*>(panel + k * panel_rows + lanes) =
          *reinterpret_cast<const UnalignedVector*>(column + lanes);
    }
    return;
  }
  for (Index k = terms.begin; k < terms.end; ++k) {
    for (Index i = 0; i < rows; ++i) panel[k * panel_rows + i] = from[i * a.row_step + k * a.column_step];
    for (Index i = rows; i < panel_rows; ++i) panel[k * panel_rows + i] = 0.0F;
  }
}

/// Sums a tile. The sums of its upper half run over k in `upper`, those of its lower half over k in `lower`.
/// Entry (k, j) of b is b[k·row + j·column]; `adjacent` means column = 1.
template <bool adjacent>
void sum_tile(const float* panel, const float* b, Index row, Index column, Range upper, Range lower,
              Vector (&sums)[2][tile_columns]) {
  for (auto& half : sums) {
    for (Vector& sum : half) sum = Vector{};
  }
  const Index step = adjacent ? 1 : column;
  const auto sum_half = [&](int half, Index begin, Index end) {
    Vector own[tile_columns];
    for (Index j = 0; j < tile_columns; ++j) own[j] = sums[half][j];
    for (Index k = begin; k < end; ++k) {
      const Vector x = *reinterpret_cast<const UnalignedVector*>(panel + k * panel_rows + half * lanes);
      const float* const y = b + k * row;
      for (Index j = 0; j < tile_columns; ++j) own[j] += x * y[j * step];
    }
    for (Index j = 0; j < tile_columns; ++j) sums[half][j] = own[j];
  };
  const Index begin = std::max(upper.begin, lower.begin);
  const Index end = std::max(begin, std::min(upper.end, lower.end));
  sum_half(0, upper.begin, std::min(begin, upper.end));
  sum_half(1, lower.begin, std::min(begin, lower.end));
  Vector first[tile_columns];
  Vector second[tile_columns];
  for (Index j = 0; j < tile_columns; ++j) {
    first[j] = sums[0][j];
    second[j] = sums[1][j];
  }
  for (Index k = begin; k < end; ++k) {
    const Vector x0 = *reinterpret_cast<const UnalignedVector*>(panel + k * panel_rows);
    const Vector x1 = *reinterpret_cast<const UnalignedVector*>(panel + k * panel_rows + lanes);
    const float* const y = b + k * row;
    for (Index j = 0; j < tile_columns; ++j) {
      first[j] += x0 * y[j * step];
      second[j] += x1 * y[j * step];
    }
  }
  for (Index j = 0; j < tile_columns; ++j) {
    sums[0][j] = first[j];
    sums[1][j] = second[j];
  }
  sum_half(0, std::max(end, upper.begin), upper.end);
  sum_half(1, std::max(end, lower.begin), lower.end);
}

void store_tile(const FloatProduct& p, Index i, Index j, Index rows, Index columns,
                const Vector (&sums)[2][tile_columns]) {
  for (Index column = 0; column < columns; ++column) {
    float* const c = p.c + (j + column) * p.c_column_step + i;
    if (rows == panel_rows) {
      for (int half = 0; half < 2; ++half) {
        UnalignedVector& out = *reinterpret_cast<UnalignedVector*>(c + half * lanes);
        out = p.accumulate ? out + p.weight * sums[half][column] : p.weight * sums[half][column];
      }
      continue;
    }
    for (Index r = 0; r < rows; ++r) {
      const float sum = p.weight * sums[r / lanes][column][r % lanes];
      c[r] = p.accumulate ? c[r] + sum : sum;
    }
  }
}

void multiply_tiled(const FloatProduct& p) {
  const Index depth = p.a.columns;
  const std::unique_ptr<float[]> panel(new float[static_cast<std::size_t>(panel_rows * std::max<Index>(depth, 1))]);
  // If fewer than tile_columns columns remain at the end, `last` holds a zero-padded copy of them.
  const Index full_columns = p.b.columns / tile_columns * tile_columns;
  std::unique_ptr<float[]> last;
  if (full_columns < p.b.columns) {
    last.reset(new float[static_cast<std::size_t>(tile_columns * std::max<Index>(depth, 1))]());
    for (Index k = 0; k < depth; ++k) {
      for (Index j = full_columns; j < p.b.columns; ++j) {
        last[static_cast<std::size_t>(k * tile_columns + j - full_columns)] =
            p.b.data[k * p.b.row_step + j * p.b.column_step];
      }
    }
  }
  for (Index i = 0; i < p.a.rows; i += panel_rows) {
    const Index rows = std::min(panel_rows, p.a.rows - i);
    const Range upper = terms_of_rows(p.a.zeros, i, lanes, depth);
    const Range lower = terms_of_rows(p.a.zeros, i + lanes, lanes, depth);
    const Range both{std::min(upper.begin, lower.begin), std::max(upper.end, lower.end)};
    copy_panel(p.a, i, rows, both, panel.get());
    for (Index j = 0; j < p.b.columns; j += tile_columns) {
      const Index columns = std::min(tile_columns, p.b.columns - j);
      if (p.lower_only && j > i + rows - 1) {
        for (Index column = j; column < j + columns && !p.accumulate; ++column) {
          std::memset(p.c + column * p.c_column_step + i, 0, static_cast<std::size_t>(rows) * sizeof(float));
        }
        continue;
      }
      const Range terms = terms_of_columns(p.b.zeros, j, columns, depth);
      const Range first = intersection(upper, terms);
      const Range second = intersection(lower, terms);
      Vector sums[2][tile_columns];
      if (columns < tile_columns) {
        sum_tile<true>(panel.get(), last.get(), tile_columns, 1, first, second, sums);
      } else if (p.b.column_step == 1) {
        sum_tile<true>(panel.get(), p.b.data + j, p.b.row_step, 1, first, second, sums);
      } else {
        sum_tile<false>(panel.get(), p.b.data + j * p.b.column_step, p.b.row_step, p.b.column_step, first, second,
                        sums);
      }
      store_tile(p, i, j, rows, columns, sums);
    }
  }
}

}  // namespace

MultiplyFloats PERISCOPE_FLOAT_PRODUCT();
MultiplyFloats PERISCOPE_FLOAT_PRODUCT() { return multiply_tiled; }

}  // namespace periscope::theory
