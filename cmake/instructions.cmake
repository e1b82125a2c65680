# Instruction sets of the build. The CPU ops (sim/cpu) are compiled for each level in PERISCOPE_LEVELS, in increasing
# order, and the program chooses one at run time. All other code is compiled for PERISCOPE_INSTRUCTIONS. There is only
# one level with PERISCOPE_NATIVE (this machine's) and on architectures other than x86-64 (the compiler's default). On
# x86-64, the second level requires GNU compiler and binutils (cmake/sealed_object.cmake), and no sanitizers or fuzzers.
string(COMPARE EQUAL "${CMAKE_SYSTEM_PROCESSOR}:${CMAKE_SIZEOF_VOID_P}" "x86_64:8" PERISCOPE_X86_64)
if(PERISCOPE_NATIVE)
  set(PERISCOPE_INSTRUCTIONS native)
elseif(PERISCOPE_X86_64)
  set(PERISCOPE_INSTRUCTIONS x86-64-v3)
else()
  set(PERISCOPE_INSTRUCTIONS generic)
endif()
set(PERISCOPE_LEVELS ${PERISCOPE_INSTRUCTIONS})
if(PERISCOPE_INSTRUCTIONS STREQUAL "x86-64-v3" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND NOT PERISCOPE_SANITIZE AND NOT PERISCOPE_FUZZ)
  find_program(PERISCOPE_GNU_LD NAMES ld.bfd ld)
  set(ld_options "")
  if(PERISCOPE_GNU_LD)
    execute_process(COMMAND ${PERISCOPE_GNU_LD} --help OUTPUT_VARIABLE ld_options ERROR_QUIET)
  endif()
  if(ld_options MATCHES "--force-group-allocation" AND CMAKE_OBJCOPY AND CMAKE_NM AND CMAKE_OBJDUMP)
    list(APPEND PERISCOPE_LEVELS x86-64-v4)
  endif()
endif()
message(STATUS "Instruction set: ${PERISCOPE_INSTRUCTIONS}; CPU ops: ${PERISCOPE_LEVELS}")

# The -march option of all targets; the target property PERISCOPE_MARCH overrides the instruction set.
set(periscope_march "")
if(NOT PERISCOPE_INSTRUCTIONS STREQUAL "generic")
  set(own $<TARGET_PROPERTY:PERISCOPE_MARCH>)
  set(periscope_march -march=$<IF:$<STREQUAL:${own},>,${PERISCOPE_INSTRUCTIONS},${own}>)
endif()

# periscope_sealed(<result> <object library> <function>): links the library into one object file that exports only the
# function. The linker then never mixes inline functions or template instances of different levels.
function(periscope_sealed result library function)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${library}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_COMMAND} -DLD=${PERISCOPE_GNU_LD} -DOBJCOPY=${CMAKE_OBJCOPY} -DNM=${CMAKE_NM} -DOBJDUMP=${CMAKE_OBJDUMP} -DFUNCTION=${function}
            "-DOBJECTS=$<TARGET_OBJECTS:${library}>" -DOUTPUT=${object} -P ${CMAKE_SOURCE_DIR}/cmake/sealed_object.cmake
    DEPENDS ${library} $<TARGET_OBJECTS:${library}> ${CMAKE_SOURCE_DIR}/cmake/sealed_object.cmake
    COMMENT "Sealing ${library}"
    VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${result} ${object} PARENT_SCOPE)
endfunction()

# periscope_of_level(<result> <object library> <level> <function>): sets <result> to the objects of a library compiled
# for a level. If there are several levels, <result> is one sealed object for this level, which exports only <function>.
function(periscope_of_level result library level function)
  list(LENGTH PERISCOPE_LEVELS count)
  if(count GREATER 1)
    target_compile_options(${library} PRIVATE -fno-gnu-unique -fno-lto)
    set_target_properties(${library} PROPERTIES PERISCOPE_MARCH ${level} DISABLE_PRECOMPILE_HEADERS ON)
    periscope_sealed(object ${library} ${function})
    set(${result} ${object} PARENT_SCOPE)
  else()
    set(${result} $<TARGET_OBJECTS:${library}> PARENT_SCOPE)
  endif()
endfunction()

# periscope_processor_of(<result> <level>): sets <result> to the processor_level() that a level requires; 0 if unknown.
function(periscope_processor_of result level)
  set(${result} 0 PARENT_SCOPE)
  if(level MATCHES "^x86-64-v(.)$")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()
