#pragma once

#include <nanobind/nanobind.h>

namespace periscope::python {

/// Adds to the module what can be said without a run: studies, sections of a configuration, kinds of results, the
/// build, and whether a configuration is one.
void add_descriptions(nanobind::module_& module);

}  // namespace periscope::python
