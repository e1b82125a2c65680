# Run at build time: links OBJECTS into one object file, OUTPUT, whose only global symbol is the function FUNCTION.
# COMDAT groups are dissolved first; otherwise the linker would discard groups that other objects contain too.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${LD} -r --force-group-allocation -o ${OUTPUT}.whole ${OBJECTS})
# Static initializers would run on every processor, including those without this level's instructions.
run(${OBJDUMP} --section-headers ${OUTPUT}.whole)
if(output MATCHES "[^\n]*(\\.init_array|\\.ctors|\\.preinit_array)[^\n]*")
  message(FATAL_ERROR "${OUTPUT}: expected no static initializers, found ${CMAKE_MATCH_0}")
endif()
run(${OBJCOPY} --wildcard "--keep-global-symbol=*${FUNCTION}Ev" ${OUTPUT}.whole ${OUTPUT})
file(REMOVE ${OUTPUT}.whole)
run(${NM} --defined-only --extern-only --format=posix ${OUTPUT})
if(NOT output MATCHES "^[^ \n]*${FUNCTION}Ev T [^\n]*\n$")
  message(FATAL_ERROR "${OUTPUT}: expected one global symbol, ${FUNCTION}, found\n${output}")
endif()
