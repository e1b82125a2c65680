#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace periscope::theory {

/// Scope guard that flushes subnormal floats (below 1.2e-38) to 0 on this thread, if the processor supports it.
/// Subnormal arithmetic is a hundred times slower, and sharp patterns have whole columns of subnormal products. A sum
/// of n terms of size at most 1 changes by at most n·1.2e-38.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(control()) { set_control(before_ | flushing); }
  ~FlushedSubnormals() { set_control(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  using Control = unsigned;
  static constexpr Control flushing = 0x8040;  // bits 15 (FTZ, flush results) and 6 (DAZ, operands)
  static Control control() { return _mm_getcsr(); }
  static void set_control(Control c) { _mm_setcsr(c); }
#elif defined(__aarch64__)
  using Control = std::uint64_t;
  static constexpr Control flushing = std::uint64_t{1} << 24U;  // bit FZ of register FPCR
  static Control control() {
    Control c;
    asm volatile("mrs %0, fpcr" : "=r"(c));
    return c;
  }
  static void set_control(Control c) { asm volatile("msr fpcr, %0" : : "r"(c)); }
#else
  using Control = unsigned;
  static constexpr Control flushing = 0;
  static Control control() { return 0; }
  static void set_control(Control) {}
#endif
  Control before_;
};

}  // namespace periscope::theory
