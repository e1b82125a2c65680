#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "experiments/engine/study/study.h"

namespace periscope::study {

/// Returns the origin of a result: program, version, commit, compiler, device, instruction set, the resolved
/// configuration and its SHA-256, and the values that --theory-set overrides. The names of these facts are stable.
dataset::Facts origin(const Job& job, const config::Resolved& resolved);

/// Gives a dataset that a study has made its facts: its origin, which study and kind of result it is, and what the
/// study says itself.
void seal(const Study& study, const Job& job, Outcome& outcome);

/// The name of this machine's processor.
std::string cpu_name();

/// Returns the circumstances of a run, which do not influence its result: created (UTC), argv (the command line of the
/// process), cpu, threads, seconds that it took, and the largest memory of this process so far in bytes.
dataset::Facts circumstances(const std::vector<std::string>& argv, int threads, double seconds);

nlohmann::ordered_json whole_json(const Outcome& outcome);

/// Returns BibTeX of this program, or of the program that made a result, with the result's study and configuration, and
/// of the paper that it examines; `attribute` returns the text of a global attribute of the result.
std::string citation(const std::function<std::string(const char*)>& attribute = {});

}  // namespace periscope::study
