#include "experiments/engine/study/citation.h"

#include <fmt/format.h>

#include <string_view>

#include "experiments/engine/settings/build_info.h"

namespace periscope::study {
namespace {

/// Text inside braces of BibTeX.
std::string bibtex(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\{}~^").find(c) != std::string_view::npos) continue;
    if (std::string_view("%&#_$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string entries(const std::string& version, const std::string& commit, const std::string& result) {
  return fmt::format(
      R"(@software{{periscope,
  title = {{Periscope: a laboratory for normalization placement in deep residual stacks}},
  author = {{{{The Periscope authors}}}},
  version = {{{}}},
  note = {{Commit {}{}}}
}}

@inproceedings{{kim2025periln,
  title = {{{{Peri-LN}}: Revisiting Normalization Layer in the Transformer Architecture}},
  author = {{Kim, Jeonghoon and Lee, Byeongchan and Park, Cheonbok and Oh, Yeontaek and Kim, Beomjun and Yoo, Taehwan and
            Shin, Seongjin and Han, Dongyoon and Shin, Jinwoo and Yoo, Kang Min}},
  booktitle = {{Proceedings of the 42nd International Conference on Machine Learning}},
  series = {{Proceedings of Machine Learning Research}},
  volume = {{267}},
  year = {{2025}},
  note = {{arXiv:2502.02732}}
}}
)",
      bibtex(version), bibtex(commit), bibtex(result));
}

}  // namespace

std::string citation() { return entries(build_info::version, build_info::commit, ""); }

std::string citation(const std::function<std::string(const char*)>& attribute) {
  const std::string result =
      fmt::format("; a result of its study {} on {}, {}, with the configuration of SHA-256 {}", attribute("study"),
                  attribute("device"), attribute("instructions"), attribute("config_sha256"));
  return entries(attribute("version"), attribute("commit"), result);
}

}  // namespace periscope::study
