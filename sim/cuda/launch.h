#pragma once

#include <algorithm>
#include <array>
#include <typeinfo>

#include "sim/cuda/execution.h"
#include "sim/cuda/memory.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

/// Kernel launches. A kernel is a struct of arguments with a PERISCOPE_HOST_DEVICE call operator, copied to the device.
namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// The cooperating threads of one block. Code between calls of `threads` runs on every thread of a GPU block, but only
/// once on the host, so it must not write to memory; its accesses count once, and for no thread.
struct Block {
  static constexpr int size = 256;
#ifndef __CUDACC__
  bool reversed = false;
  Index* accesses_by_thread = nullptr;  ///< null if they are not counted
#endif

  /// Calls f(t) for t = 0 … size−1, each on its own thread, and synchronises the threads.
  template <class F>
  PERISCOPE_HOST_DEVICE void threads([[maybe_unused]] const F& f) const {
#ifdef __CUDA_ARCH__
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
#elif !defined(__CUDACC__)  // nvcc's host code never runs kernels
    for (int i = 0; i < size; ++i) {
      const int t = reversed ? size - 1 - i : i;
      const Index before = accesses.count;
      f(t);
      if (accesses_by_thread != nullptr) accesses_by_thread[t] += accesses.count - before;
    }
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
    merge(shared, size, combine);
    const Value all = shared[0];
    threads([](int) {});  // all threads must read the result before `shared` is reused
    return all;
  }

  /// Reduces the values of each group of `team` consecutive threads to the entry of its first thread. `team` is a power
  /// of two.
  template <class Value, class Combine>
  PERISCOPE_HOST_DEVICE void merge(Value* shared, int team, const Combine& combine) const {
    for (int half = team / 2; half > 0; half /= 2) {
      threads([&](int t) {
        if (t % team < half) combine(shared[t], shared[t + half]);
      });
    }
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
__global__ void block_kernel(Body body) {
  __shared__ typename Body::Shared shared;
  body(Block{}, shared, static_cast<Index>(blockIdx.x));
}

template <class Body>
void launch_blocks(const Execution& execution, const Launch& /*launch*/, Index blocks, const Body& body) {
  block_kernel<<<static_cast<unsigned>(blocks), Block::size, 0, static_cast<cudaStream_t>(execution.stream())>>>(body);
  check_launch();
}

#else

template <class Body>
void launch_blocks(const Execution& execution, const Launch& launch, Index blocks, const Body& body) {
  constexpr Index min_parallel_size = 16;
  const bool reversed = execution.options().reversed;
  Index read = 0, written = 0, most = 0;
#pragma omp parallel for schedule(static) reduction(+ : read, written) reduction(max : most) \
    if (blocks > min_parallel_size)
  for (Index i = 0; i < blocks; ++i) {
    typename Body::Shared shared;
    std::array<Index, Block::size> by_thread;
    if (launch.use != nullptr) by_thread.fill(0);
    const Accesses before = accesses;
    body(Block{reversed, launch.use != nullptr ? by_thread.data() : nullptr}, shared, reversed ? blocks - 1 - i : i);
    read += accesses.read - before.read;
    written += accesses.written - before.written;
    if (launch.use != nullptr) most = std::max(most, *std::ranges::max_element(by_thread));
  }
  launch.count(read, written, most);
}

#endif

/// Calls body(block, shared, b) for b = 0 … blocks−1, one block of threads and one Body::Shared per b.
template <class Body>
void for_blocks(const Execution& execution, Index blocks, const Body& body) {
  if (blocks > 0) launch_blocks(execution, Launch(execution, typeid(Body).name()), blocks, body);
}

template <class Body>
struct EachThread {
  struct Shared {};
  Body body;
  Index count;
  PERISCOPE_HOST_DEVICE void operator()(const Block& block, Shared& /*shared*/, Index b) const {
    block.threads([&](int t) {
      const Index i = b * Block::size + t;
      if (i < count) body(i);
    });
  }
};

/// Calls body(i) for i = 0 … count−1, one thread per i.
template <class Body>
void for_each(const Execution& execution, Index count, const Body& body) {
  const Index blocks = ceil_div(count, Block::size);
  const EachThread<Body> each{body, count};
  if (count > 0) launch_blocks(execution, Launch(execution, typeid(Body).name()), blocks, each);
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
