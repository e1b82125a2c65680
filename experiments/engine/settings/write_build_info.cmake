# Runs at every build. Rewrites build_info.cpp only if its content changes.
find_package(Git QUIET)
set(COMMIT "unknown")
# A source distribution has a file COMMIT and no .git. It may lie inside another repository.
if(EXISTS ${SOURCE_DIR}/COMMIT AND NOT EXISTS ${SOURCE_DIR}/.git)
  file(STRINGS ${SOURCE_DIR}/COMMIT COMMIT LIMIT_COUNT 1)
elseif(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE FOUND OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE FAILED)
  if(NOT FAILED)
    set(COMMIT "${FOUND}")
  endif()
endif()

# PROGRAM is a hash of the compiler, its flags, the machine's instruction set, and all sources and build files.
set(all "${COMPILER}\n${FLAGS}\n")
string(SHA256 COMPILATION "${all}")
cmake_policy(SET CMP0009 NEW)  # links are not followed
file(GLOB_RECURSE sources RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/sim/* ${SOURCE_DIR}/theory/* ${SOURCE_DIR}/experiments/*
  ${SOURCE_DIR}/cmake/*)
list(APPEND sources CMakeLists.txt)  # not by a recursive glob, which would also find files in build folders
list(FILTER sources INCLUDE REGEX "\\.(h|cpp|cu|cuh|cmake|in)$|CMakeLists\\.txt$")
list(FILTER sources EXCLUDE REGEX "^experiments/bench/")
list(SORT sources)
foreach(source ${sources})
  file(SHA256 ${SOURCE_DIR}/${source} hash)
  string(APPEND all "${source} ${hash}\n")
endforeach()
string(SHA256 PROGRAM "${all}")
configure_file(${SOURCE_DIR}/experiments/engine/settings/build_info.cpp.in ${OUTPUT} @ONLY)
