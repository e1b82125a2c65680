#include "experiments/common/provenance.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <chrono>
#include <fstream>

#include "experiments/common/build_info.h"
#include "experiments/common/json_text.h"
#include "experiments/common/told.h"

namespace periscope {
namespace {

std::vector<std::string>& argv_storage() {
  static std::vector<std::string> argv;
  return argv;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

void set_argv(std::vector<std::string> argv) { argv_storage() = std::move(argv); }

std::string sha256_hex(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

nlohmann::ordered_json provenance(const Config& config) {
  nlohmann::ordered_json stacks = nlohmann::ordered_json::array();
  for (const StackSpec& spec : config.stacks()) stacks.push_back(resolved_json(spec));
  const nlohmann::ordered_json resolved{
      {"stacks", stacks},
      {"run",
       {{"seed", config.run.seed},
        {"seeds", config.run.seeds},
        {"dtype", name_of(config.run.dtype)},
        {"backward", config.run.backward}}},
      {"agreement",
       {{"familywise_error", config.agreement.familywise_error},
        {"finite_width", config.agreement.finite_width},
        {"finite_width_cosine", config.agreement.finite_width_cosine},
        {"finite_width_gradient", config.agreement.finite_width_gradient},
        {"power_limit",
         {{"second_moment", config.agreement.power_limits.second_moment},
          {"variance", config.agreement.power_limits.variance},
          {"token_cosine", config.agreement.power_limits.token_cosine},
          {"log_grad_sq", config.agreement.power_limits.log_grad_sq},
          {"score_share", config.agreement.power_limits.score_share}}}}},
      {"theory",
       {{"tolerance", config.theory.tolerance},
        {"gradient_tolerance", config.theory.gradient_tolerance},
        {"fault", theory::fault_names[static_cast<std::size_t>(config.theory.fault)]},
        {"finite_width", config.theory.finite_width ? nlohmann::ordered_json(*config.theory.finite_width) : nullptr},
        {"replicates", config.theory.replicates}}},
      {"told", told_differences(config)},
      {"converge", {{"widths", config.converge.widths}, {"seeds", config.converge.seeds}}},
      {"ladder", {{"widths", config.ladder.widths}, {"seeds", config.ladder.seeds}}},
      {"gradients",
       {{"layers", config.gradients.layers},
        {"qk_factors", config.gradients.qk_factors},
        {"down_factors", config.gradients.down_factors}}}};
  nlohmann::ordered_json all{{"program", "periscope"},
                             {"version", build_info::version},
                             {"commit", build_info::commit},
                             {"compiler", build_info::compiler},
                             {"cpu", cpu_name()},
                             {"device", config.run.device},
                             {"threads", config.run.threads},
                             {"created", utc_now()},
                             {"argv", argv_storage()},
                             {"config_sha256", sha256_hex(json_text(resolved))},
                             {"config", resolved}};
  if (theory_is_misled(config)) all["theory_told"] = told_json(config);
  return all;
}

}  // namespace periscope
