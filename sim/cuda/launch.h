#pragma once

#include <algorithm>

#include "sim/cuda/execution.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

/// Kernel launches. A kernel is a struct of arguments with a PERISCOPE_HOST_DEVICE call operator, copied to the device.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The cooperating threads of one block. Code between calls of `threads` runs on every thread of a GPU block, but only
/// once on the host, so it must not write to memory.
struct Block {
  static constexpr int size = 256;

  /// Calls f(t) for t = 0 … size−1, each on its own thread, and synchronises the threads.
  template <class F>
  PERISCOPE_HOST_DEVICE void threads(const F& f) const {
#ifdef __CUDA_ARCH__
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    for (int t = 0; t < size; ++t) f(t);
#endif
  }

  /// Reduces items 0 … n−1: thread t starts with `empty` and adds items t, t + size, … by add(value, i); then
  /// combine(value, other) merges the values pairwise in `shared` [size]. The order depends only on n.
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
    threads([](int) {});  // all threads must read the result before `shared` is reused
    return all;
  }

  /// Σ_i term(i) for i < n, in double.
  template <class Term>
  PERISCOPE_HOST_DEVICE double sum(double* shared, Index n, const Term& term) const {
    return reduce(
        shared, n, 0.0, [&](double& s, Index i) { s += term(i); }, [](double& s, double other) { s += other; });
  }
};

/// Shared memory of a block for sums of doubles.
struct SumShared {
  double sums[Block::size];
};

#ifdef __CUDACC__

/// Throws Error if the last kernel launch failed.
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

/// Calls body(i) for i = 0 … count−1, one thread per i.
template <class Body>
void for_each(const Execution& execution, Index count, const Body& body) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + Block::size - 1) / Block::size);
  each_kernel<<<blocks, Block::size, 0, static_cast<cudaStream_t>(execution.stream())>>>(body, count);
  check_launch();
}

/// Calls body(block, shared, b) for b = 0 … blocks−1, one block of threads and one Body::Shared per b.
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
