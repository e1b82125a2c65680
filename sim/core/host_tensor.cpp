#include "sim/core/host_tensor.h"

#include <new>

namespace periscope {

Tensor host_tensor(Tensor::Index rows, Tensor::Index cols, DType dtype) {
  constexpr std::align_val_t alignment{64};
  const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
  std::shared_ptr<void> buffer(::operator new(bytes, alignment), [](void* p) { ::operator delete(p, alignment); });
  return {rows, cols, dtype, std::move(buffer)};
}

}  // namespace periscope
