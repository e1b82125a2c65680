#pragma once

#include <nanobind/nanobind.h>

namespace periscope::python {

/// Adds to the module what a recorder of another program's passes needs: where a model's parameters are, and `replay`.
void add_recording(nanobind::module_& module);

}  // namespace periscope::python
