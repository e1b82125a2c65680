#pragma once

namespace periscope {

/// Frees the pool of idle host tensors, for a process that has finished computing.
void free_idle_memory();

/// Prepares this process for running out of memory: sets a new-handler that frees idle tensors and then a reserve, so
/// that destructors which allocate (those of nlohmann::json) succeed while std::bad_alloc unwinds the stack. With
/// nothing left to free it calls the previous handler. Later calls fill the reserve again. Safe for threads.
void install_out_of_memory_handler();

}  // namespace periscope
