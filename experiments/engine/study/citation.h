#pragma once

#include <functional>
#include <string>

namespace periscope::study {

/// Returns BibTeX of this program and of the paper that it examines.
std::string citation();

/// Returns BibTeX of the program that made a result, with the result's study and configuration, and of the paper;
/// `attribute` returns the text of a global attribute of the result.
std::string citation(const std::function<std::string(const char*)>& attribute);

}  // namespace periscope::study
