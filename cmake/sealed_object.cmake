# Run at build time: links OBJECTS into one object file, OUTPUT, of whose symbols the function FUNCTION() alone is global.
# Groups of sections (COMDAT) are dissolved first, or the linker would drop those that another object has, too.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${LD} -r --force-group-allocation -o ${OUTPUT}.whole ${OBJECTS})
# Initialisers of static objects would run on every processor, also on one without this level's instructions.
run(${OBJDUMP} --section-headers ${OUTPUT}.whole)
if(output MATCHES "[^\n]*(\\.init_array|\\.ctors|\\.preinit_array)[^\n]*")
  message(FATAL_ERROR "${OUTPUT}: expected no static object with an initialiser, found ${CMAKE_MATCH_0}")
endif()
run(${OBJCOPY} --wildcard "--keep-global-symbol=*${FUNCTION}Ev" ${OUTPUT}.whole ${OUTPUT})
file(REMOVE ${OUTPUT}.whole)
run(${NM} --defined-only --extern-only --format=posix ${OUTPUT})
if(NOT output MATCHES "^[^ \n]*${FUNCTION}Ev T [^\n]*\n$")
  message(FATAL_ERROR "${OUTPUT}: expected one global symbol, ${FUNCTION}, found\n${output}")
endif()
