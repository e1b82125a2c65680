#include <cmath>

#include "sim/cuda/launch.h"
#include "sim/cuda/ops.h"
#include "sim/random/philox_block.h"
#include "sim/random/unit_normal.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Computes numbers 8i … 8i+7 of a stream: stddev times a unit normal in double, rounded to T. For 16-bit formats, two
/// products in float that enclose the double one usually suffice (`run`).
template <class T>
struct DrawEight {
  StreamKey key;
  double stddev;
  float below, above;
  Out<T> out;
  Index size;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    float unit[8];
    for (int half = 0; half < 2; ++half) {
      const auto block = philox_block(key, static_cast<std::uint64_t>(2 * i + half));
      const std::uint64_t words[4] = {block.x0, block.x1, block.x2, block.x3};
      for (int j = 0; j < 4; ++j) unit[4 * half + j] = unit_normal(static_cast<std::uint32_t>(words[j]));
    }
    constexpr int width = Pack<T>::size;
    for (int first = 0; first < 8; first += width) {
      Pack<T> pack;
      bool is_rounded = sizeof(T) == 2;
      for (int j = 0; j < width && is_rounded; ++j) {
        if constexpr (sizeof(T) == 2) {
          pack.elements[j] = narrow<T>(below * unit[first + j]);
          is_rounded = pack.elements[j].bits == narrow<T>(above * unit[first + j]).bits;
        }
      }
      for (int j = 0; j < width && !is_rounded; ++j) {
        pack.elements[j] = from_double<T>(stddev * static_cast<double>(unit[first + j]));
      }
      out.store(pack, 8 * i + first, size - 8 * i - first);
    }
  }
};

}  // namespace

void CudaBackend::run(const op::Normal& o) const {
  // Let ε = 2⁻²⁴. |float(s(1 − 3ε))| ≤ |s|(1 − 2ε), so its product with u, rounded to float, is smaller than |s·u|;
  // with 1 + 3ε it is larger. If both products round to the same 16-bit number, so does s·u. The products must be
  // normal floats; 2⁻³² < |u| < 7. The bounds −1 and 1 never agree, so that all products are then computed in double.
  const bool in_range = std::abs(o.stddev) > 0x1p-60 && std::abs(o.stddev) < 0x1p60;
  const float below = in_range ? static_cast<float>(o.stddev * (1 - 0x3p-24)) : -1.0F;
  const float above = in_range ? static_cast<float>(o.stddev * (1 + 0x3p-24)) : 1.0F;
  with_type(o.y.dtype(), [&]<class T>(T) {
    for_each(execution_, (o.y.size() + 7) / 8, DrawEight<T>{o.key, o.stddev, below, above, data<T>(o.y), o.y.size()});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
