#include "sim/spec/block.h"

#include <algorithm>
#include <cmath>

namespace periscope {

std::optional<int> Branch::read_stream() const {
  std::optional<int> only;
  for (std::size_t j = 0; j < reads.size(); ++j) {
    if (reads[j] == 0.0) continue;
    if (only || reads[j] != 1.0) return std::nullopt;
    only = static_cast<int>(j);
  }
  return only;
}

bool Step::is_one_addition() const {
  const std::vector<double>& row = mixing.front();
  const bool alone = std::ranges::all_of(row.begin() + 1, row.end(), [](double weight) { return weight == 0.0; });
  return alone && branches.size() == 1 && branches.front().read_stream() == 0 && !branches.front().channel_scale;
}

double branch_scale(const Step& step, const Branch& branch) {
  const auto stream = static_cast<std::size_t>(branch.read_stream().value_or(0));
  const double kept = branch.read_stream() ? step.mixing[stream][stream] : 1.0;
  return std::abs(branch.writes[stream] / (step.streams() > 1 && kept == 0.0 ? 1.0 : kept));
}

bool StreamEnds::has(Signal name) const { return std::ranges::find(names, name) != names.end(); }

bool StreamEnds::has_plain() const {
  return std::ranges::any_of(plain, [](double weight) { return weight != 0.0; });
}

int StreamEnds::parts_of_stream() const { return static_cast<int>(std::ranges::count(names, Signal::x_out)); }

}  // namespace periscope
