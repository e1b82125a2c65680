#include "sim/cuda/on_device/library.h"

#include <dlfcn.h>

#include "sim/cuda/on_device/errors.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

Library::Library(const std::string& name) : name_(name) {
  handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) handle_ = dlopen((PERISCOPE_CUDA_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    fail("the library " + name + " of the CUDA toolkit cannot be loaded, neither as the system looks for it nor from " +
         PERISCOPE_CUDA_LIBRARIES + " (" + dlerror() + "); LD_LIBRARY_PATH may name its folder");
  }
}

void* Library::address(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) fail("the library " + name_ + " has no function " + name);
  return found;
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
