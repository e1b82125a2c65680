#include "tests/results/netcdf_files.h"

#include <netcdf.h>

#include <stdexcept>

namespace periscope::testing {

dataset::Dataset small_result() {
  dataset::Dataset data{.dimensions = {{"placement", 2, false}, {"depth", 3, false}, {"step", 4, true}},
                        .columns = {},
                        .facts = {{"program", std::string("periscope")},
                                  {"seed", std::int64_t{7}},
                                  {"error", 0.25},
                                  {"argv", std::string(R"(["a","b"])")}}};
  data.columns = {
      {"placement", {"placement"}, std::vector<std::string>{"pre", "peri, \"quoted\""}, "", "where the norms are"},
      {"depth", {"depth"}, std::vector<double>{0, 1, 2}, "1", "depth"},
      {"variance", {"placement", "depth"}, std::vector<double>{1, 2, 3, 4, 5, 1.0 / 3.0}, "1", "of x_out"},
      {"loss", {"step"}, std::vector<double>{4, 3, 2, 1}, "nat", "of every step"},
      {"verdict", {"placement"}, std::vector<std::string>{"agrees", ""}, "", "of theory"},
      {"seconds", {}, std::vector<double>{0.5}, "s", "it took"}};
  return data;
}

void make_netcdf(const std::string& path, const std::function<void(int file)>& content) {
  int file = 0;
  if (nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &file) != NC_NOERR)
    throw std::runtime_error("cannot make " + path);
  content(file);
  if (const int status = nc_close(file); status != NC_NOERR) throw std::runtime_error(nc_strerror(status));
}

}  // namespace periscope::testing
