#include "experiments/engine/result/serialize.h"

#include "tests/support/doctest.h"

namespace periscope {

TEST_CASE("CSV: a row per value, a field per dimension, quotes where necessary") {
  dataset::Dataset data{.dimensions = {{"placement", 2, false}, {"depth", 3, false}, {"step", 2, true}},
                        .columns = {},
                        .attributes = {{"program", "periscope"}}};
  data.columns = {
      {"placement", {"placement"}, std::vector<std::string>{"pre", "peri, \"quoted\""}, "", "where the norms are"},
      {"depth", {"depth"}, std::vector<std::int64_t>{0, 1, 2}, "1", "depth"},
      {"variance", {"placement", "depth"}, std::vector<double>{1, 2, 3, 4, 5, 1.0 / 3.0}, "1", "of x_out"},
      {"diverged_at", {"placement"}, std::vector<std::int64_t>{dataset::missing_integer, 7}, "1", "first step lost"},
      {"loss", {"step"}, std::vector<double>{4, 3}, "1", "of every step"},
      {"verdict", {"placement"}, std::vector<std::string>{"two\nlines", ""}, "", "of theory"},
      {"seconds", {}, std::vector<double>{0.5}, "s", "it took"}};
  const std::string quoted = "\"peri, \"\"quoted\"\"\"";
  CHECK(dataset::csv_text(data) ==
        "variable,placement,depth,step,value\n"
        "variance,pre,0,,1\nvariance,pre,1,,2\nvariance,pre,2,,3\n"
        "variance," +
            quoted + ",0,,4\nvariance," + quoted +
            ",1,,5\n"
            "variance," +
            quoted +
            ",2,,0.3333333333333333\n"
            "diverged_at,pre,,,nan\ndiverged_at," +
            quoted +
            ",,,7\n"
            "loss,,,0,4\nloss,,,1,3\n"
            "verdict,pre,,,\"two\nlines\"\nverdict," +
            quoted +
            ",,,\n"
            "seconds,,,,0.5\n");
}

}  // namespace periscope
