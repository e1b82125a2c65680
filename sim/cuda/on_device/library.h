#pragma once

#include <string>

#include "sim/cuda/host_device.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// A shared library that is opened when it is needed, so that the program starts at once, and on machines that do not
/// have it. It stays open until the process ends.
class Library {
 public:
  /// Looked for where the system does, then in the toolkit with which this program was built. Throws Error (run-time
  /// failure) if it is not found.
  explicit Library(const std::string& name);
  /// Throws Error if the library does not have it.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(address(name));
  }

 private:
  [[nodiscard]] void* address(const char* name) const;

  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
