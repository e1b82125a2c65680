#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "sim/cpu/gemm.h"
#include "sim/cpu/ops.h"

/// Computes ‖dYᵀX‖² = Σ_st (XXᵀ)_st (dYdYᵀ)_st: for few tokens, two Gram matrices are cheaper than the gradient.
namespace periscope {
namespace cpu {
namespace {

/// Computes the lower triangle of x xᵀ [rows, rows].
template <class T>
void gram(const T* x, Index rows, Index cols, T* lower) {
  gemm<T>(rows, rows, cols, {x, cols}, MatrixView<T>{x, cols}.transposed(), lower, rows, Part::lower);
}

/// Σ_st a_st b_st, Σ_st a_st² and Σ_st b_st² of two symmetric matrices given by their lower triangles.
struct Products {
  double both = 0.0, of_a = 0.0, of_b = 0.0;
};

template <class T>
Products products_of(const T* a, const T* b, Index rows) {
  std::vector<Products> by_row(static_cast<std::size_t>(rows));
#pragma omp parallel for schedule(static, 16) if (rows * rows > min_parallel_size)
  for (Index i = 0; i < rows; ++i) {
    const auto u = ConstRow<T>(a + i * rows, i + 1).template cast<double>();
    const auto v = ConstRow<T>(b + i * rows, i + 1).template cast<double>();
    const double du = u(i);
    const double dv = v(i);
    by_row[static_cast<std::size_t>(i)] = {2.0 * (u * v).sum() - du * dv, 2.0 * u.square().sum() - du * du,
                                           2.0 * v.square().sum() - dv * dv};
  }
  return std::accumulate(by_row.begin(), by_row.end(), Products{}, [](const Products& x, const Products& y) {
    return Products{x.both + y.both, x.of_a + y.of_a, x.of_b + y.of_b};
  });
}

/// The symmetric Gram matrices take rows² (in + out) multiplications and additions, the gradient 2 rows·in·out.
bool grams_cost_less(Index rows, Index in, Index out) { return rows * (in + out) < 2 * in * out; }

/// Returns true if the Gram matrices give an accurate result. Their inner product is accurate to a few units of
/// round-off relative to the product of their norms. If it is much smaller, terms cancel (nearly equal tokens, or
/// gradients that nearly sum to 0 over tokens) and only the gradient itself is accurate. The same holds if entries of a
/// Gram matrix or their squares overflow or become subnormal.
template <class T>
bool is_accurate(const Products& p) {
  constexpr double least = 1.0 / 64.0;
  constexpr double small = static_cast<double>(std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon());
  const auto in_range = [](double squares) { return std::isnormal(squares) && std::sqrt(squares) > small; };
  return in_range(p.of_a) && in_range(p.of_b) && p.both >= least * std::sqrt(p.of_a) * std::sqrt(p.of_b);
}

}  // namespace
}  // namespace cpu

void CpuBackend::run(const op::LinearWeightSquare& o) const {
  if (cpu::grams_cost_less(o.x.rows(), o.x.cols(), o.dy.cols())) {
    Tensor of_x = do_allocate(o.x.rows(), o.x.rows(), o.x.dtype());
    Tensor of_dy = do_allocate(o.x.rows(), o.x.rows(), o.x.dtype());
    cpu::Products products;
    bool accurate = false;
    cpu::with_type_of(o.x, [&]<class T>(T) {
      cpu::gram(elements<T>(o.x), o.x.rows(), o.x.cols(), elements<T>(of_x));
      cpu::gram(elements<T>(o.dy), o.x.rows(), o.dy.cols(), elements<T>(of_dy));
      products = cpu::products_of<T>(elements<T>(of_x), elements<T>(of_dy), o.x.rows());
      accurate = cpu::is_accurate<T>(products);
    });
    if (accurate) {
      *elements<double>(o.square) = products.both;
      return;
    }
  }
  ComposedBackend::run(op::LinearWeightSquare{o.dy, o.x, o.square});
}

}  // namespace periscope
