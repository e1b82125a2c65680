#pragma once

/// The origin of this binary: version, commit, compiler and a hash of the sources. CMake writes build_info.cpp at every
/// build.
namespace periscope::build_info {

extern const char* const version;
extern const char* const commit;  ///< git commit, with "-dirty" if the tree differed; "unknown" outside git
extern const char* const compiler;
extern const char* const compilation;  ///< SHA-256 of the compiler, its flags and the build type
extern const char* const program;      ///< SHA-256 of the sources of what computes, the compiler and its flags

}  // namespace periscope::build_info
