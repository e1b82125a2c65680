#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/engine/result/schema.h"

namespace periscope::app {

/// Placements (T1's table), presets, configuration keys with their defaults, devices, studies and other commands.
std::string list_text();
nlohmann::ordered_json list_json();

/// A command that shows what a study or another command answers.
struct Example {
  std::string name, command, question;
};

/// The examples of every study, then of the other commands.
std::vector<Example> examples();

/// Returns the schema of every kind of result.
std::vector<const dataset::Schema*> result_schemas();

/// All their columns, as text and as JSON.
std::string columns_text();
nlohmann::ordered_json columns_json();

/// The manual's reference in Markdown: the commands of the whole program `app` with their flags, exit codes,
/// placements, presets, configuration keys, columns of results. It is the same on every machine.
std::string reference_markdown(const CLI::App& app);

/// Return the manual page (roff) and the completion for bash of the whole program `app`.
std::string man_page(const CLI::App& app);
std::string bash_completion(const CLI::App& app);

/// Returns, for every model.recipe, the values that it sets, and the properties of its family that no key describes.
std::string recipes_text();

/// Return what can be done with every placement, kind of norm, and norm or gate inside modules; a blank is a refusal
/// with its reason.
std::string blocks_text();
nlohmann::ordered_json blocks_json();

}  // namespace periscope::app
