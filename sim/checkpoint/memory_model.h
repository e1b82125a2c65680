#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/checkpoint/safetensors_view.h"

namespace periscope {

/// A checkpoint in this process's memory instead of a folder.
struct MemoryModel {
  std::string name;                        ///< name in messages and results
  std::string config;                      ///< text of config.json
  SafetensorsContents tensors;             ///< tensors by their names in files
  std::shared_ptr<const void> owner{};     ///< owns the bytes of the tensors
  std::vector<std::string> ignore_keys{};  ///< keys of the configuration to ignore, as for Checkpoint
};

}  // namespace periscope
