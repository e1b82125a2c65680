#include "sim/cuda/launch.h"
#include "sim/cuda/ops.h"
#include "sim/random/philox_block.h"
#include "sim/random/unit_normal.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Generates numbers 4i … 4i+3 of a stream.
template <class T>
struct DrawFour {
  StreamKey key;
  double stddev;
  T* out;
  Index size;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const auto block = philox_block(key, static_cast<std::uint64_t>(i));
    const std::uint64_t words[4] = {block.x0, block.x1, block.x2, block.x3};
    for (Index j = 0; j < 4 && 4 * i + j < size; ++j) {
      const float unit = unit_normal(static_cast<std::uint32_t>(words[j]));
      out[4 * i + j] = from_double<T>(stddev * static_cast<double>(unit));
    }
  }
};

}  // namespace

void CudaBackend::run(const op::Normal& o) const {
  with_type(o.y.dtype(), [&]<class T>(T) {
    for_each(execution_, (o.y.size() + 3) / 4, DrawFour<T>{o.key, o.stddev, data<T>(o.y), o.y.size()});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
