#pragma once

#include <memory>

#include "sim/core/backend.h"
#include "tests/emulated/emulation.h"

namespace periscope {

/// A backend that computes every forward op in a number format (T24). Tensors are f64 with values of the format, and
/// every step is rounded according to `emulation`. `inner` provides storage, random numbers, statistics and gradients,
/// and its f64 tensors must be in host memory. Results of from_host, constant, normal and gather are rounded to the
/// stored format; weights must be rounded beforehand (`round_to_stored`). `inner` and `watch` must outlive the backend;
/// `watch` may be null. Not thread-safe.
std::unique_ptr<Backend> make_emulated_backend(const Backend& inner, const Emulation& emulation,
                                               Watch* watch = nullptr);

/// Rounds every entry to a format.
Tensor round_to_stored(const Backend& backend, const Tensor& x, const NumberFormat& format);

}  // namespace periscope
