#pragma once

#include <cstddef>
#include <memory>

#include "sim/core/storage.h"

namespace periscope::cpu {

/// A temporary buffer of `size` numbers from the host pool, aligned to 64 bytes, with undefined contents.
template <class T>
class Scratch {
 public:
  explicit Scratch(Tensor::Index size) : memory_(host_pool().take(static_cast<std::size_t>(size) * sizeof(T))) {}
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.get()); }

 private:
  std::shared_ptr<void> memory_;
};

}  // namespace periscope::cpu
