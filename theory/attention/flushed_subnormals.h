#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace periscope::theory {

/// While it lives, this thread takes numbers below the smallest normal one (1.2e-38 of a float) for 0, where its
/// processor can. Arithmetic with them takes a hundred times as long, and sharp patterns have whole columns of products
/// of that size. An entry whose terms are at most 1 changes by at most their number times 1.2e-38. Exceptions leave the
/// thread as it was.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(control()) { set_control(before_ | flushing); }
  ~FlushedSubnormals() { set_control(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  using Control = unsigned;
  static constexpr Control flushing = 0x8040;  // results (FTZ) and operands (DAZ)
  static Control control() { return _mm_getcsr(); }
  static void set_control(Control c) { _mm_setcsr(c); }
#elif defined(__aarch64__)
  using Control = std::uint64_t;
  static constexpr Control flushing = std::uint64_t{1} << 24U;  // FPCR.FZ
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
