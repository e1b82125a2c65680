#include <nanobind/nanobind.h>

#include <cstring>
#include <exception>
#include <new>

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/progress.h"
#include "python/bindings/bindings.h"
#include "python/bindings/worker_thread.h"
#include "sim/base/error.h"

namespace nb = nanobind;

NB_MODULE(_periscope, module) {
  nb::set_leak_warnings(false);  // a daemon thread may own a result when the interpreter exits
  module.doc() = "Compiled module of the package periscope, which is the public interface.";
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        const auto raise = [](const char* what, periscope::ExitCode code) {
          const nb::object text =
              nb::steal(PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::strlen(what)), "replace"));
          const nb::object error =
              nb::module_::import_("periscope.errors").attr("error_of")(text, static_cast<int>(code));
          PyErr_SetObject(error.type().ptr(), error.ptr());
        };
        try {
          std::rethrow_exception(thrown);
        } catch (const periscope::stacks::OutOfMemory& error) {
          PyErr_SetString(PyExc_MemoryError, error.what());
        } catch (const periscope::Error& error) {
          raise(error.what(), error.code());
        } catch (const periscope::stacks::Stopped&) {
          raise("the run was stopped", periscope::ExitCode::stopped_early);
        } catch (const std::bad_alloc&) {
          PyErr_SetString(PyExc_MemoryError, "not enough memory");
        }
      },
      nullptr);
  module.def("stop_all", &periscope::python::stop_all, "Stops all runs and waits for them.");
  nb::module_::import_("atexit").attr("register")(module.attr("stop_all"));
  periscope::python::add_descriptions(module);
  periscope::python::add_model(module);
  periscope::python::add_run(module);
  periscope::python::add_recording(module);
  periscope::python::add_sweeps(module);
}
