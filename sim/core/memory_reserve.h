#pragma once

namespace periscope {

/// Frees the pooled host buffers, e.g. when the process has finished computing.
void free_idle_memory();

/// Installs a new-handler that frees pooled buffers first and reserved blocks next. The reserve lets destructors that
/// allocate (nlohmann::json) succeed while std::bad_alloc unwinds the stack. When nothing is left to free, the handler
/// calls the previous one. Calling this again refills the reserve. Thread-safe.
void install_out_of_memory_handler();

}  // namespace periscope
