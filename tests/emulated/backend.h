#pragma once

#include <memory>

#include "sim/core/backend.h"
#include "tests/emulated/emulation.h"

namespace periscope {

/// A backend that carries out every forward op in a number format: rounds after every step as `emulation` says (T24),
/// on tensors in f64 whose entries are numbers of the format. Storage, random numbers, statistics and gradients are
/// those of `inner`, which must keep f64 tensors in host memory; what enters through from_host, constant, normal and
/// gather is rounded to the stored format. Weights must be rounded before (`round_to_stored`): an op takes them as they
/// are. Both references outlive it; `watch` may be null. One backend is for one thread.
std::unique_ptr<Backend> make_emulated_backend(const Backend& inner, const Emulation& emulation,
                                               Watch* watch = nullptr);

/// Every entry rounded to the format of what is stored.
Tensor round_to_stored(const Backend& backend, const Tensor& x, const NumberFormat& format);

}  // namespace periscope
