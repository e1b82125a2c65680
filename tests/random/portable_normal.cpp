// Compiles sim/random in a second namespace, so that one program contains two builds of it.
#define periscope portable_periscope
#include "sim/random/normal.cpp"
#include "sim/random/philox.cpp"
#undef periscope

#include "tests/random/portable_normal.h"

namespace periscope::testing {

void portable_unit_normals(std::span<const std::uint32_t> words, std::span<float> out) {
  portable_periscope::unit_normals(words, out);
}

void portable_normals(std::uint64_t seed, std::uint32_t layer, std::uint32_t stream, std::uint64_t first, double stddev,
                      std::span<double> out) {
  portable_periscope::fill_normal<double>({seed, layer, portable_periscope::Stream{stream}}, first, stddev, out);
}

}  // namespace periscope::testing
