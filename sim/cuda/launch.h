#pragma once

#include <algorithm>

#include "sim/cuda/execution.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

/// Kernels are written and started here. A kernel is a struct with its arguments and a call operator that is
/// PERISCOPE_HOST_DEVICE; it is copied to the device.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The threads of one block, which work together. Code between calls of `threads` is run by every thread of a GPU's
/// block, and once on the host: it must not write to memory.
struct Block {
  static constexpr int size = 256;

  /// Calls f(t) for t = 0 … size−1, each on its thread. All have returned before anything after it begins.
  template <class F>
  PERISCOPE_HOST_DEVICE void threads(const F& f) const {
#ifdef __CUDA_ARCH__
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    for (int t = 0; t < size; ++t) f(t);
#endif
  }

  /// The combination of all items 0 … n−1: thread t starts with `empty` and adds t, t + size, … by add(value, i); then
  /// the threads' values are combined in pairs by combine(value, other). The order depends on n alone. `shared` has
  /// `size` values.
  template <class Value, class Add, class Combine>
  PERISCOPE_HOST_DEVICE Value reduce(Value* shared, Index n, Value empty, const Add& add,
                                     const Combine& combine) const {
    threads([&](int t) {
      Value value = empty;
      for (Index i = t; i < n; i += size) add(value, i);
      shared[t] = value;
    });
    for (int half = size / 2; half > 0; half /= 2) {
      threads([&](int t) {
        if (t < half) combine(shared[t], shared[t + half]);
      });
    }
    const Value all = shared[0];
    threads([](int) {});  // shared may be written to again once every thread has read it
    return all;
  }

  /// Σ_i term(i) for i < n, in double.
  template <class Term>
  PERISCOPE_HOST_DEVICE double sum(double* shared, Index n, const Term& term) const {
    return reduce(
        shared, n, 0.0, [&](double& s, Index i) { s += term(i); }, [](double& s, double other) { s += other; });
  }
};

/// What a block shares to add up doubles.
struct SumShared {
  double sums[Block::size];
};

#ifdef __CUDACC__

/// Throws std::runtime_error if a launch failed.
void check_launch();

template <class Body>
__global__ void each_kernel(Body body, Index count) {
  const Index i = static_cast<Index>(blockIdx.x) * Block::size + threadIdx.x;
  if (i < count) body(i);
}

template <class Body>
__global__ void block_kernel(Body body) {
  __shared__ typename Body::Shared shared;
  body(Block{}, shared, static_cast<Index>(blockIdx.x));
}

/// Calls body(i) for i = 0 … count−1, one thread each.
template <class Body>
void for_each(const Execution& execution, Index count, const Body& body) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + Block::size - 1) / Block::size);
  each_kernel<<<blocks, Block::size, 0, static_cast<cudaStream_t>(execution.stream())>>>(body, count);
  check_launch();
}

/// Calls body(block, shared, b) for b = 0 … blocks−1, one block of threads each, with a Body::Shared of their own.
template <class Body>
void for_blocks(const Execution& execution, Index blocks, const Body& body) {
  if (blocks == 0) return;
  block_kernel<<<static_cast<unsigned>(blocks), Block::size, 0, static_cast<cudaStream_t>(execution.stream())>>>(body);
  check_launch();
}

#else

template <class Body>
void for_each(const Execution& /*execution*/, Index count, const Body& body) {
  constexpr Index min_parallel_size = 4096;
#pragma omp parallel for schedule(static) if (count > min_parallel_size)
  for (Index i = 0; i < count; ++i) body(i);
}

template <class Body>
void for_blocks(const Execution& /*execution*/, Index blocks, const Body& body) {
  constexpr Index min_parallel_size = 16;
#pragma omp parallel for schedule(static) if (blocks > min_parallel_size)
  for (Index b = 0; b < blocks; ++b) {
    typename Body::Shared shared;
    body(Block{}, shared, b);
  }
}

#endif

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
