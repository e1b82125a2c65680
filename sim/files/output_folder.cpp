#include "sim/files/output_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "sim/files/destination.h"

namespace periscope {

OutputFolder::OutputFolder(std::string folder, const std::vector<std::string>& names, bool overwrite)
    : lock_(std::move(folder)) {
  for (const std::string& name : names) {
    const std::string path = lock_.folder() + "/" + name;
    if (!overwrite && has_entry(path)) {
      throw ConfigError(fmt::format("{}: is there already; expected another folder, or --force to overwrite", path));
    }
  }
  for (const std::string& name : names) files_.push_back(std::make_unique<OutputFile>(lock_.folder() + "/" + name));
}

void OutputFolder::commit() {
  for (const auto& file : files_) file->sync();
  const std::string& marker = files_.back()->target();
  if (files_.size() > 1 && ::unlink(marker.c_str()) == 0) sync_folder(folder_of(marker));
  for (std::size_t i = 0; i + 1 < files_.size(); ++i) {
    files_[i]->publish();
    sync_folder(folder_of(files_[i]->target()));
  }
  files_.back()->publish();
  sync_folder(folder_of(marker));
}

}  // namespace periscope
