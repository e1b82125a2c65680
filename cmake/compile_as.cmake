# Precompiled headers shorten clang's debug build by a third. gcc's optimized build gains little, and gcc 12 then gives
# false warnings about std::string (gcc bug 105651).
option(PERISCOPE_PCH "Precompile standard and third-party headers" OFF)

set(precompiled_headers <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <limits> <map> <memory>
  <numbers> <numeric> <optional> <random> <set> <span> <stdexcept> <string> <string_view> <utility> <vector>
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# With sanitizers, the tests spend most of their time in backends and theory. Debug builds therefore compile these with
# -O1: the build takes half a minute longer, the tests four minutes less. -Wno-pass-failed: at -O1, clang warns of
# `omp simd` loops that it does not vectorise.
set(periscope_numeric_options "$<$<AND:$<CONFIG:Debug>,$<COMPILE_LANGUAGE:CXX>>:-O1>"
  "$<$<AND:$<CONFIG:Debug>,$<COMPILE_LANG_AND_ID:CXX,Clang>>:-Wno-pass-failed>")

# Engine, studies, command line, files and tests spend little time in their own code. With -O1 gcc compiles them a third
# faster. Backends, models and theory keep -O3; -O1 may round the last bits differently.
set(periscope_cold_options "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")

# A precompiled header is valid only for targets with the same flags, including OpenMP and optimization.
if(PERISCOPE_PCH)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
  foreach(kind cold_plain cold_openmp openmp numeric_plain numeric_openmp)
    add_library(periscope_pch_${kind} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(periscope_pch_${kind} PRIVATE periscope_flags fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(periscope_pch_${kind} PRIVATE ${precompiled_headers})
    if(kind MATCHES openmp)
      target_link_libraries(periscope_pch_${kind} PRIVATE OpenMP::OpenMP_CXX)
    endif()
    if(kind MATCHES numeric)
      target_compile_options(periscope_pch_${kind} PRIVATE ${periscope_numeric_options})
    elseif(kind MATCHES cold)
      target_compile_options(periscope_pch_${kind} PRIVATE ${periscope_cold_options})
    endif()
  endforeach()
endif()

# periscope_compile_as(<cold_plain, cold_openmp, openmp, numeric_plain or numeric_openmp> <targets>): openmp is for
# targets that link OpenMP, numeric for backends and theory, cold for code that releases compile with -O1.
function(periscope_compile_as kind)
  foreach(target ${ARGN})
    if(kind MATCHES numeric)
      target_compile_options(${target} PRIVATE ${periscope_numeric_options})
    elseif(kind MATCHES cold)
      target_compile_options(${target} PRIVATE ${periscope_cold_options})
    endif()
    if(PERISCOPE_PCH)
      target_precompile_headers(${target} REUSE_FROM periscope_pch_${kind})
    endif()
  endforeach()
endfunction()

# periscope_unity(<target> <files>): with PERISCOPE_UNITY, compiles the target in batches of this many files. The
# last bits of results may depend on the batches.
function(periscope_unity target files)
  if(PERISCOPE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  endif()
endfunction()
