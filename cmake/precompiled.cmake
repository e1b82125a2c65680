# Standard and third-party headers, compiled once instead of in every file. clang's debug build needs a third less time
# with them. gcc's optimizing build gains less than a fifth, so the release build goes without and shows that every file
# includes what it uses. Eigen is not among them: it would slow down the many files that do without it.
option(PERISCOPE_PCH "Precompile standard and third-party headers" OFF)

set(precompiled_headers <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <limits> <map> <memory>
  <numbers> <numeric> <optional> <random> <set> <span> <stdexcept> <string> <string_view> <utility> <vector>
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# A precompiled header fits the targets that are compiled with its flags, and OpenMP is such a flag.
if(PERISCOPE_PCH)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
  foreach(kind plain openmp)
    add_library(periscope_pch_${kind} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(periscope_pch_${kind} PRIVATE periscope_flags fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(periscope_pch_${kind} PRIVATE ${precompiled_headers})
  endforeach()
  target_link_libraries(periscope_pch_openmp PRIVATE OpenMP::OpenMP_CXX)
endif()

# periscope_precompiled(<plain or openmp> <targets>)
function(periscope_precompiled kind)
  if(PERISCOPE_PCH)
    foreach(target ${ARGN})
      target_precompile_headers(${target} REUSE_FROM periscope_pch_${kind})
    endforeach()
  endif()
endfunction()
