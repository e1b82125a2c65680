#pragma once

#include <string>

#include "sim/cuda/host_device.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

/// A shared library, loaded on demand and never unloaded, so that the program also runs on machines without it.
class Library {
 public:
  /// Searches the system's library path, then the toolkit that this program was built with. Throws Error (run-time
  /// failure) if the library cannot be loaded.
  explicit Library(const std::string& name);
  /// Sets `function` to the function `name` of the library. Throws Error if the library lacks it.
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
