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
/// once on the host, so it must not write to memory.
struct Block {
  static constexpr int size = 256;
#ifndef __CUDACC__
  bool reversed = false;
  Index* accesses_by_thread = nullptr;  ///< null if they are not counted
#endif

  /// Calls f(t) for t = 0 … size−1, each on its own thread, and synchronises the threads.
  template <class F>
  PERISCOPE_HOST_DEVICE void threads(const F& f) const {
#ifdef __CUDACC__
#ifdef __CUDA_ARCH__
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
#endif
#else
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

  /// Merges the values of each team of threads t, …, t + team − 1 (t a multiple of team, a power of two) pairwise into
  /// that of its first thread.
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

/// Number of blocks whose threads cover `count` items.
constexpr Index blocks_for(Index count) { return (count + Block::size - 1) / Block::size; }

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
  const Launch launch(execution, typeid(Body).name());
  const auto blocks = static_cast<unsigned>(blocks_for(count));
  each_kernel<<<blocks, Block::size, 0, static_cast<cudaStream_t>(execution.stream())>>>(body, count);
  check_launch();
}

/// Calls body(block, shared, b) for b = 0 … blocks−1, one block of threads and one Body::Shared per b.
template <class Body>
void for_blocks(const Execution& execution, Index blocks, const Body& body) {
  if (blocks == 0) return;
  const Launch launch(execution, typeid(Body).name());
  block_kernel<<<static_cast<unsigned>(blocks), Block::size, 0, static_cast<cudaStream_t>(execution.stream())>>>(body);
  check_launch();
}

#else

/// Calls run(block, b) for every block b and records the accesses of its threads.
template <class Run>
void run_blocks(const Execution& execution, const char* kernel, Index blocks, const Run& run) {
  if (blocks == 0) return;
  constexpr Index min_parallel_size = 16;
  const Launch launch(execution, kernel);
  std::size_t read = 0;
  std::size_t written = 0;
  Index most = 0;
#pragma omp parallel for schedule(static) reduction(+ : read, written) reduction(max : most) if (blocks > min_parallel_size)
  for (Index i = 0; i < blocks; ++i) {
    const bool reversed = execution.options().reversed;
    std::array<Index, Block::size> by_thread;
    if (launch.use != nullptr) by_thread.fill(0);
    const Accesses before = accesses;
    run(Block{reversed, launch.use != nullptr ? by_thread.data() : nullptr}, reversed ? blocks - 1 - i : i);
    read += accesses.read - before.read;
    written += accesses.written - before.written;
    if (launch.use != nullptr) most = std::max(most, *std::ranges::max_element(by_thread));
  }
  launch.count(static_cast<double>(read), static_cast<double>(written), most);
}

template <class Body>
void for_each(const Execution& execution, Index count, const Body& body) {
  run_blocks(execution, typeid(Body).name(), blocks_for(count), [&](const Block& block, Index b) {
    block.threads([&](int t) {
      const Index i = b * Block::size + t;
      if (i < count) body(i);
    });
  });
}

template <class Body>
void for_blocks(const Execution& execution, Index blocks, const Body& body) {
  run_blocks(execution, typeid(Body).name(), blocks, [&](const Block& block, Index b) {
    typename Body::Shared shared;
    body(block, shared, b);
  });
}

#endif

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
