#pragma once

namespace periscope {

/// Gives the memory of host tensors that are no more, which is kept for further ones, back to the allocator. For a
/// process that has other things to do than to compute.
void free_idle_memory();

}  // namespace periscope
