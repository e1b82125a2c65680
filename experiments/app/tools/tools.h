#pragma once

#include <CLI/CLI.hpp>

/// Each function adds commands to `app`. Running a command sets `code`, the exit code of the process.
namespace periscope::app {

void add_checkpoint_tools(CLI::App& app, int& code);  ///< info and write-checkpoint
void add_regauge(CLI::App& app, int& code);
void add_generate(CLI::App& app, int& code);
void add_toy(CLI::App& app, int& code);
void add_list(CLI::App& app, int& code);
void add_sweep(CLI::App& app, int& code);   ///< sweep plan, run, status, gather and slurm
void add_ledger(CLI::App& app, int& code);  ///< ledger list, run and report
void add_cite(CLI::App& app, int& code);

}  // namespace periscope::app
