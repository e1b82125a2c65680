#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// Every function here adds commands to `app`. A command that runs sets `code`, the process's exit code.
namespace periscope {

/// All of them.
void add_commands(CLI::App& app, int& code);

/// What to say where the command line names a command that there is not, with the nearest; else "".
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words);

namespace propagate {
void add_commands(CLI::App& app, int& code);  ///< propagate and theory
}
namespace converge {
void add_commands(CLI::App& app, int& code);
}
namespace ladder {
void add_commands(CLI::App& app, int& code);
}
namespace formats {
void add_commands(CLI::App& app, int& code);
}
namespace power {
void add_commands(CLI::App& app, int& code);
}
namespace gradients {
void add_commands(CLI::App& app, int& code);  ///< gradients, with its experiments
}
namespace verify {
void add_commands(CLI::App& app, int& code);
}
namespace checkpoint {
void add_commands(CLI::App& app, int& code);  ///< info and write-checkpoint
}
namespace probe {
void add_commands(CLI::App& app, int& code);  ///< probe and generate
}
namespace certify {
void add_commands(CLI::App& app, int& code);
}
namespace train {
void add_commands(CLI::App& app, int& code);
}
namespace reproduce {
void add_commands(CLI::App& app, int& code);
}
namespace soundness {
void add_commands(CLI::App& app, int& code);
}

}  // namespace periscope
