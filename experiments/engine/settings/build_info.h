#pragma once

/// Provenance of this binary. CMake writes build_info.cpp at every build.
namespace periscope::build_info {

extern const char* const version;
extern const char* const commit;  ///< git commit, with "-dirty" if tracked files differ; "unknown" outside git
extern const char* const compiler;
extern const char* const compilation;  ///< SHA-256 of the compiler, its flags and the build type
extern const char* const program;      ///< SHA-256 of the program's sources, the compiler and its flags

}  // namespace periscope::build_info
