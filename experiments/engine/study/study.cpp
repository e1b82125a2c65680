#include "experiments/engine/study/study.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

std::unique_ptr<stacks::CellJournal> journal_of(const Job& job, stacks::CellJournal::Resumable resumable) {
  if (!job.keeps_cells || job.run_options.out.empty()) return nullptr;
  return std::make_unique<stacks::CellJournal>(job.run_options.out, job.file, job.resolved, std::move(resumable));
}

}  // namespace periscope::study
