# Run at every build: writes build_info.cpp, and touches it only when something changed.
find_package(Git QUIET)
set(COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE FOUND OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE FAILED)
  if(NOT FAILED)
    set(COMMIT "${FOUND}")
  endif()
endif()
configure_file(${SOURCE_DIR}/experiments/results/build_info.cpp.in ${OUTPUT} @ONLY)
