#pragma once

#include <atomic>
#include <exception>

namespace periscope {

/// Carries an exception out of a parallel loop: one that leaves the loop's body ends the program (std::terminate), so a
/// lack of memory would have neither a sentence nor an exit code. Every iteration runs its body through `run`, and
/// after the loop `rethrow` throws what was caught first, in time:
///
///   FirstException failure;
///   #pragma omp parallel for
///   for (int i = 0; i < n; ++i) failure.run([&] { results[i] = f(i); });
///   failure.rethrow();
///
/// After a failure the bodies of the iterations that are left are skipped.
class FirstException {
 public:
  template <class Body>
  void run(const Body& body) noexcept {
    if (failed()) return;
    try {
      body();
    } catch (...) {
      if (!failed_.exchange(true)) first_ = std::current_exception();
    }
  }
  [[nodiscard]] bool failed() const { return failed_; }
  /// Throws the exception, if there was one. It may be called only after the loop, whose end makes `first_` visible.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> failed_ = false;
  std::exception_ptr first_;
};

}  // namespace periscope
