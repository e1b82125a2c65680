#include "experiments/engine/study/study.h"

#include <algorithm>
#include <iterator>

namespace periscope::study {

std::vector<std::string> acting_keys(const Study& study) {
  std::vector<std::string> keys = study.shared_keys;
  std::ranges::move(keys_of(study.common), std::back_inserter(keys));
  for (const config::AnySection& section : study.sections) keys.push_back(section.name + ".");
  return keys;
}

std::string result_file(const Job& job, const std::string& extension) {
  return job.run_options.out + "/" + job.file + "." + extension;
}

std::optional<cache::Cache> cache_of(const Study& study, const Job& job) {
  if (job.run_options.out.empty() || job.resolved.hashed.is_null()) return std::nullopt;
  return cache::Cache(job.run_options.out, job.file.empty() ? study.name : job.file, job.resolved);
}

}  // namespace periscope::study
