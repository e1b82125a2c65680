#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#ifdef __GLIBC__
#include <malloc.h>
#include <sys/auxv.h>
#endif

#include "experiments/app/command.h"
#include "experiments/app/run_study.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/stop_signals.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/settings/build_info.h"
#include "experiments/studies/studies.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/core/memory_reserve.h"

namespace periscope::app {
namespace {

constexpr const char* footer = R"(Exit codes: 0 ok, 1 run-time failure, 2 usage or configuration, 3 input file invalid,
4 a check failed (theory disagrees, a bound is violated, weights are faulty), 5 diverged with --fail-on-divergence,
75 stopped by a signal, the same command resumes the run,
129, 130, 143 stopped by SIGHUP, SIGINT, SIGTERM with nothing to resume.)";

/// By default glibc returns freed arrays of 128 KB or more (128 × 128 doubles) to the system. The page faults of the
/// next allocation then take a fifth of a prediction's time. These settings keep the memory in the process.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the upper limit of glibc's own dynamic threshold
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

#ifdef __GLIBC__
/// Makes waiting OpenMP threads spin for about 20 µs before they yield their core, unless the environment sets a
/// policy. On a busy machine libgomp's default of several ms wastes time. libgomp reads these variables when it is
/// loaded, so this function executes the program again with them set, before any library is initialized.
void restart_with_short_spins(int /*argc*/, char** argv, char** environment) {
  if (getauxval(AT_BASE) == 0) return;  // run as `ld.so PROGRAM`: /proc/self/exe is then ld.so itself
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    for (const std::string_view variable : {"OMP_WAIT_POLICY=", "GOMP_SPINCOUNT=", "KMP_BLOCKTIME="}) {
      if (std::string_view(environment[count]).starts_with(variable)) return;
    }
  }
  char policy[] = "OMP_WAIT_POLICY=passive";  // for other OpenMP libraries
  char spins[] = "GOMP_SPINCOUNT=1000";
  std::vector<char*> extended(environment, environment + count);
  extended.insert(extended.end(), {policy, spins, nullptr});
  if (!stop_signal_received()) execve("/proc/self/exe", argv, extended.data());  // on failure the program continues
}
__attribute__((section(".preinit_array"), used)) void (*const restart)(int, char**, char**) = restart_with_short_spins;
#endif

const std::terminate_handler default_terminate = std::get_terminate();

/// Reports lack of memory in destructors and other noexcept functions with the usual message and exit code. For an
/// exception that escapes libstdc++'s directory_iterator, std::current_exception() is null; it can only be a
/// failed allocation.
void on_terminate() {
  bool no_memory = !std::current_exception() && std::uncaught_exceptions() > 0;
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    no_memory = true;
  } catch (...) {  // reported by default_terminate
  }
  if (!no_memory) default_terminate();
  constexpr std::string_view message = "periscope: not enough memory\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
  std::_Exit(static_cast<int>(ExitCode::runtime_failure));
}

/// CLI11's help, wrapped to the width of tables.
class WrappedHelp final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return dataset::wrap_to_table_width(CLI::Formatter::make_help(app, std::move(name), mode));
  }
};

bool is_help(const CLI::ParseError& error) { return error.get_exit_code() == 0; }

constexpr const char* title =
    "Periscope: how the placement of normalization layers shapes signals in deep residual stacks.";

/// Returns the text that `periscope` prints without arguments: the main questions and the commands that answer them.
std::string overview() {
  std::string text = fmt::format("{}\n\n", title);
  for (const study::Study& one : studies()) {
    if (one.shown_first) text += fmt::format("  {}\n      periscope {}\n", one.question, one.example);
  }
  return text + "\n`periscope help` shows all commands, `periscope help propagate` one; `periscope list` every key.\n";
}

/// Adds `help` to the list of commands; run() handles it.
void add_help(CLI::App& app) {
  app.add_subcommand("help", "Show the flags of a command")
      ->add_option_function<std::vector<std::string>>(
          "command", [](const std::vector<std::string>& /*words*/) {},
          "The command, as in `periscope help propagate`; default: list all commands");
}

/// Rejects empty values of flags, which usually come from an unset shell variable.
void reject_empty_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](const std::string& word) { return word.empty() ? "expected a value, found \"\"" : ""; }, "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() > 0) option->check(not_empty);
  }
  for (CLI::App* command : app.get_subcommands({})) reject_empty_values(*command);
}

void add_commands(CLI::App& app, int& code) {
  for (const study::Study& one : studies()) add_study(app, code, one);
  add_checkpoint_tools(app, code);
  add_regauge(app, code);
  add_generate(app, code);
  add_toy(app, code);
  add_sweep(app, code);
  add_ledger(app, code);
  add_list(app, code);
  add_cite(app, code);
  add_help(app);
  reject_empty_values(app);
}

int run(int argc, char** argv) {
  const std::string_view instructions = instructions_of("cpu");  // throws if PERISCOPE_INSTRUCTIONS is invalid
  if (argc < 2) {
    print_message(dataset::wrap_to_table_width(overview()));
    return static_cast<int>(ExitCode::configuration);
  }
  CLI::App app(title, "periscope");
  app.formatter(std::make_shared<WrappedHelp>());
  app.set_version_flag("--version",
                       fmt::format("periscope {} ({}, {})", build_info::version, build_info::commit, instructions));
  app.require_subcommand(1);
  app.footer(footer);
  app.failure_message([](const CLI::App* command, const CLI::Error& error) {
    std::string path = "periscope";
    for (; !command->get_subcommands().empty(); path += " " + command->get_name()) {
      command = command->get_subcommands().front();
    }
    return fmt::format("{}: {}\n", path, error.what());
  });
  int code = 0;
  add_commands(app, code);
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool asks_for_help = words.front() == "help";
  if (asks_for_help) {  // `help gradients depth` is `gradients depth --help`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  app.name(argv[0]);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 expects reversed order
  } catch (const CLI::ParseError& error) {
    const std::string unknown = asks_for_help || !is_help(error) ? unknown_word(app, words) : "";
    if (!unknown.empty()) {
      print_message(unknown + "\n");
      return static_cast<int>(ExitCode::configuration);
    }
    std::ostringstream help;
    std::ostringstream message;
    app.exit(error, help, message);
    print_message(message.str());
    print_result(help.str());
    return is_help(error) ? 0 : static_cast<int>(ExitCode::configuration);
  }
  return code;
}

}  // namespace
}  // namespace periscope::app

namespace {

int exit_code(int argc, char** argv) {
  try {
    periscope::install_out_of_memory_handler();
    periscope::app::prepare_standard_streams();
    periscope::app::install_stop_signals();
    periscope::app::keep_freed_memory();
    periscope::app::command_line.assign(argv, argv + argc);
    return periscope::app::run(argc, argv);
  } catch (const std::bad_alloc&) {
    periscope::app::print_message("periscope: not enough memory\n");
    return static_cast<int>(periscope::ExitCode::runtime_failure);
  } catch (const std::exception& error) {
    periscope::app::print_message(fmt::format("periscope: {}\n", periscope::printable(error.what())));
    const auto* with_code = dynamic_cast<const periscope::Error*>(&error);
    return static_cast<int>(with_code != nullptr ? with_code->code() : periscope::ExitCode::runtime_failure);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(periscope::app::on_terminate);
  const int code = exit_code(argc, argv);
  if (code != static_cast<int>(periscope::ExitCode::runtime_failure)) return code;
  std::fflush(nullptr);
  std::_Exit(code);  // HDF5's exit handler may crash after memory ran out
}
