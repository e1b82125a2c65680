#pragma once

#include <string>

#include "experiments/core/study/study.h"

namespace periscope::app {

/// The file with that extension of the result of a job that has a folder for results.
inline std::string result_file(const study::Job& job, const std::string& extension) {
  return job.run_options.out + "/" + job.file + "." + extension;
}

}  // namespace periscope::app
