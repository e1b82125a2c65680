#include "sim/core/storage.h"

#include "tests/support/doctest.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/measure/live_bytes.h"
#include "tests/support/compare.h"
#include "tests/support/twin.h"

namespace periscope::testing {
namespace {

using Index = Tensor::Index;
constexpr std::size_t kib = 1024;

TEST_CASE("buffer pool: a freed buffer is reused by the next request of its size") {
  BufferPool pool(100 * kib);
  std::shared_ptr<void> first = pool.take(10 * kib);
  void* const memory = first.get();
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
  CHECK(pool.idle_bytes() == 0);
  const std::shared_ptr<void> copy = first;
  first.reset();
  CHECK(pool.idle_bytes() == 0);  // still owned by the copy
  CHECK(pool.take(10 * kib).get() != memory);
  std::shared_ptr<void> second = pool.take(20 * kib);
  void* const large = second.get();
  second.reset();
  CHECK(pool.idle_bytes() == 30 * kib);
  CHECK(pool.take(10 * kib).get() != large);
  CHECK(pool.take(20 * kib - 100).get() == large);  // rounded up to 20 KiB
  CHECK(pool.take(1 * kib).get() != large);
}

TEST_CASE("buffer pool: idle bytes stay below the limit; the oldest buffer is freed first") {
  BufferPool pool(100 * kib);
  std::vector<std::shared_ptr<void>> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(pool.take(20 * kib));
  void* const last = buffers.back().get();
  for (std::shared_ptr<void>& buffer : buffers) {
    buffer.reset();
    CHECK(pool.idle_bytes() <= 100 * kib);
  }
  CHECK(pool.idle_bytes() == 100 * kib);
  CHECK(pool.take(20 * kib).get() == last);
  pool.take(40 * kib).reset();
  CHECK(pool.idle_bytes() == 100 * kib);  // 40 KiB and three of the five buffers of 20 KiB
  pool.take(101 * kib).reset();           // larger than the limit: freed at once
  CHECK(pool.idle_bytes() == 100 * kib);
  pool.clear();
  CHECK(pool.idle_bytes() == 0);
}

TEST_CASE("buffer pool: with a second limit, used plus idle bytes may reach the peak of used bytes") {
  BufferPool pool(10 * kib, 60 * kib);
  std::vector<std::shared_ptr<void>> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(pool.take(20 * kib));
  buffers.resize(3);
  CHECK(pool.idle_bytes() == 40 * kib);
  buffers.clear();
  CHECK(pool.idle_bytes() == 60 * kib);    // bounded by the second limit
  buffers.push_back(pool.take(80 * kib));  // the peak of 100 KiB minus 80 KiB in use: 20 KiB may stay idle
  CHECK(pool.idle_bytes() == 20 * kib);
  buffers.push_back(pool.take(40 * kib));  // 120 KiB in use: a new peak
  CHECK(pool.idle_bytes() == 0);
}

TEST_CASE("buffer pool: concurrent requests never share a buffer") {
  BufferPool pool(64 * kib);
  const auto work = [&pool](unsigned char mark) {
    for (std::size_t i = 0; i < 2000; ++i) {
      const std::size_t bytes = (4 + i % 5 * 4) * kib;
      const std::shared_ptr<void> buffer = pool.take(bytes);
      auto* const first = static_cast<unsigned char*>(buffer.get());
      std::fill_n(first, bytes, mark);
      for (std::size_t k = 0; k < bytes; k += kib) {
        if (first[k] != mark) throw std::logic_error("two owners of one buffer");
      }
    }
  };
  std::thread other(work, static_cast<unsigned char>(1));
  work(2);
  other.join();
  CHECK(pool.idle_bytes() <= 64 * kib);
}

TEST_CASE("buffer pool: small buffers are aligned and reused, also if another thread frees them") {
  BufferPool pool(0);
  std::shared_ptr<void> first = pool.take(100);
  void* const memory = first.get();
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
  first.reset();
  std::shared_ptr<void> second = pool.take(128);  // 100 and 128 bytes both take two cache lines of 64 bytes
  CHECK(second.get() == memory);
  CHECK(pool.take(129).get() != memory);
  std::thread([dropped = std::move(second)] {}).join();
  std::vector<std::shared_ptr<void>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(pool.take(0));
  many.clear();
  CHECK(pool.idle_bytes() == 0);
}

TEST_CASE("buffer pool: buffers are freed and reused while the system is out of memory") {
  BufferPool pool(100 * kib);
  for (const std::size_t bytes : {100 * std::size_t{1}, 12 * kib}) {
    std::vector<std::shared_ptr<void>> buffers;
    for (int i = 0; i < 70; ++i) buffers.push_back(pool.take(bytes));  // more than the pool retains of either size
    void* const last = buffers.back().get();
    {
      const NoMemory shortage;
      while (buffers.size() > 1) buffers.erase(buffers.begin());
      buffers.clear();  // calls std::terminate if a deleter allocates
    }
    // The pool retains the first 64 small buffers that are freed, and the large buffers freed last.
    if (bytes > 4 * kib) CHECK(pool.take(bytes).get() == last);
  }
}

TEST_CASE("buffer pool: a failed request changes neither usage nor peak") {
  BufferPool pool(10 * kib, 1000 * kib);
  const auto fails = [&](std::size_t bytes) {
    const NoMemory shortage;
    try {
      pool.take(bytes).reset();
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  };
  pool.take(40 * kib).reset();
  CHECK(fails(800 * kib));
  pool.take(40 * kib).reset();
  pool.take(20 * kib).reset();
  CHECK(pool.idle_bytes() == 20 * kib);  // 40 KiB idle plus 20 KiB in use would exceed the peak of 40 KiB
  pool.take(104 * kib).reset();
  pool.clear();
  CHECK(fails(56 * kib));
  pool.take(48 * kib).reset();
  pool.take(40 * kib).reset();
  CHECK(pool.idle_bytes() == 88 * kib);  // at most 104 − 56 = 48 KiB if the failed 56 KiB counted as in use
}

TEST_CASE("tensors reuse freed buffers of the process-wide pool") {
  const Tensor x = truth().constant(100, 100, DType::f64, 1.0);
  Tensor y = truth().scale(2.0, x);
  const double* const memory = elements<double>(std::as_const(y));
  y = {};
  const Tensor z = truth().scale(3.0, x);
  CHECK(elements<double>(z) == memory);
}

using NamedOps = std::vector<std::pair<std::string, std::function<Tensor(Tensor)>>>;

/// Elementwise ops that take x [3, 4] by value, with their other operands bound.
NamedOps elementwise_ops(const Target& target) {
  const Backend& ops = *target.backend;
  const Tensor y = normal_twin(target, 3, 4, 2).here;
  const Tensor row = normal_twin(target, 1, 4, 3).here;
  NamedOps all{
      {"axpby, first", [&ops, y](Tensor x) { return ops.axpby(0.3, std::move(x), 0.7, y); }},
      {"axpby, second", [&ops, y](Tensor x) { return ops.axpby(0.3, y, 0.7, std::move(x)); }},
      {"scale", [&ops](Tensor x) { return ops.scale(0.3, std::move(x)); }},
      {"multiply, first", [&ops, y](Tensor x) { return ops.multiply(std::move(x), y); }},
      {"multiply, second", [&ops, y](Tensor x) { return ops.multiply(y, std::move(x)); }},
      {"add_row", [&ops, row](Tensor x) { return ops.add_row(std::move(x), row); }},
      {"replace_rows", [&ops, row](Tensor x) { return ops.replace_rows(std::move(x), 1, row); }},
      {"soft_cap", [&ops](Tensor x) { return ops.soft_cap(1.5, std::move(x)); }},
      {"soft_cap_backward", [&ops, y](Tensor x) { return ops.soft_cap_backward(1.5, std::move(x), y); }},
  };
  for (const Activation kind :
       {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh, Activation::sigmoid}) {
    const std::string name = "activation " + std::to_string(static_cast<int>(kind));
    all.emplace_back(name, [&ops, kind](Tensor x) { return ops.activate(kind, std::move(x)); });
    all.emplace_back(name + " backward",
                     [&ops, kind, y](Tensor x) { return ops.activate_backward(kind, std::move(x), y); });
    all.emplace_back(name + " gated", [&ops, kind, y](Tensor x) { return ops.gated(kind, std::move(x), y); });
  }
  return all;
}

TEST_CASE("elementwise ops work in place only if the input has no other owner") {
  for (const Target& target : targets_and_truth()) {
    const Backend& ops = *target.backend;
    for (const auto& name_and_op : elementwise_ops(target)) {
      const std::string name = target.name() + " " + name_and_op.first;
      const auto& op = name_and_op.second;
      CAPTURE(name);
      Tensor x = normal_twin(target, 3, 4, 1).here;
      const std::vector<double> before = ops.to_host(x);
      const Tensor shared = op(x);
      CHECK_FALSE(shared.same_as(x));
      check_same_bits(name + ", its input", ops.to_host(x), before);
      const Tensor copy = x;
      const Tensor still_shared = op(std::move(x));
      CHECK_FALSE(still_shared.same_as(copy));
      check_same_bits(name + ", its other owner", ops.to_host(copy), before);
      Tensor fresh = ops.from_host(3, 4, target.dtype, before);
      const void* const memory = TensorMemory::address(fresh, target.dtype);
      const Tensor reused = op(std::move(fresh));
      CHECK(TensorMemory::address(reused, target.dtype) == memory);
      check_same_bits(name + ", in place", ops.to_host(reused), ops.to_host(shared));
    }
    const Tensor x = normal_twin(target, 3, 4, 1).here;
    check_same_bits("x + x", ops.to_host(ops.axpby(1.0, x, 1.0, x)), ops.to_host(ops.scale(2.0, x)));
  }
}

}  // namespace
}  // namespace periscope::testing
