#pragma once

#include <atomic>
#include <exception>

namespace periscope {

/// Carries the first exception out of an OpenMP loop; an exception that leaves the loop body would call std::terminate.
/// Every iteration runs its body through `run`, and `rethrow` is called after the loop:
///
///   FirstException failure;
///   #pragma omp parallel for
///   for (int i = 0; i < n; ++i) failure.run([&] { results[i] = f(i); });
///   failure.rethrow();
///
/// After a failure the remaining bodies are skipped.
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
  /// Throws the first exception, if any. Call it only after the loop, whose end makes `first_` visible.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic<bool> failed_ = false;
  std::exception_ptr first_;
};

}  // namespace periscope
