#include "sim/cuda/on_device/library.h"

#include <dlfcn.h>

#include "sim/cuda/on_device/errors.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {

Library::Library(const std::string& name) : name_(name) {
  handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) handle_ = dlopen((PERISCOPE_CUDA_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    fail("cannot load the CUDA library " + name + " from the system's library path or " + PERISCOPE_CUDA_LIBRARIES +
         " (" + dlerror() + "); add its folder to LD_LIBRARY_PATH");
  }
}

void* Library::address(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found == nullptr) fail("the CUDA library " + name_ + " has no function " + name);
  return found;
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
