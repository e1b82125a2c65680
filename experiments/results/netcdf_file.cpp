#include "experiments/results/netcdf_file.h"

#include <algorithm>

namespace periscope {

const NetcdfVariable* NetcdfDataset::find(const std::string& name) const {
  const auto it = std::ranges::find(variables, name, &NetcdfVariable::name);
  return it == variables.end() ? nullptr : &*it;
}

}  // namespace periscope
