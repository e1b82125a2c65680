#include "experiments/common/publish.h"

#include <fmt/format.h>

#include "experiments/common/atomic_file.h"
#include "experiments/common/command.h"
#include "experiments/common/json_text.h"

namespace periscope {

void publish(const std::string& name, const CommonOptions& options, const std::string& out, const Columns& result,
             const std::string& table, bool json_file) {
  nlohmann::ordered_json json;
  if (options.json || json_file) json = result.json();
  // What theory was told instead of the truth stands where nobody overlooks it.
  if (json.contains("provenance") && json["provenance"].contains("theory_told")) {
    json["theory_told"] = json["provenance"]["theory_told"];
  }
  const auto wrote = [&](const std::string& path) {
    if (!options.quiet) fmt::print(stderr, "wrote {}\n", path);
  };
  if (!out.empty()) {
    const std::string path = fmt::format("{}/{}.", out, name);
    write_netcdf(path + "nc", result.dataset());
    wrote(path + "nc");
    if (json_file) {
      write_text_file(path + "json", json_text(json, 1) + "\n");
      wrote(path + "json");
    }
  }
  if (options.json) print_json(json);
  if (!options.quiet) fmt::print(stderr, "{}", table);
}

}  // namespace periscope
