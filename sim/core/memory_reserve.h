#pragma once

namespace periscope {

/// Prepares this process for running out of memory: sets a new-handler that frees idle tensors and then a reserve, so
/// that destructors which allocate (those of nlohmann::json) succeed while std::bad_alloc unwinds the stack. Calls the
/// handler that was set before, if there is one, when it has nothing left to free. Later calls fill the reserve again.
/// Safe for threads.
void prepare_for_lack_of_memory();

}  // namespace periscope
