#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_view.h"

namespace periscope {

/// A checkpoint that lies in this process's memory instead of a folder.
struct MemoryModel {
  std::string name;                        ///< what messages and results call it
  std::string config;                      ///< the text that config.json would have
  SafetensorsContents tensors;             ///< by the names that they would have in the files
  std::shared_ptr<const void> owner{};     ///< of the bytes of the tensors
  std::vector<std::string> ignore_keys{};  ///< of the configuration, as Checkpoint takes them
};

}  // namespace periscope
