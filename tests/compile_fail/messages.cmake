# Compiles several files with GPIPE_FAIL in one source, and writes the messages of each to <folder>/<name>.txt.

list(TRANSFORM include PREPEND -I)
list(TRANSFORM define PREPEND -D)
set(ENV{LC_ALL} C)
execute_process(COMMAND ${compiler} -std=c++20 -fsyntax-only -DGPIPE_COMPILED=1 -DGPIPE_FAIL
                        -fno-diagnostics-show-caret -fmax-errors=0 ${include} ${define} ${source}
                RESULT_VARIABLE code ERROR_VARIABLE messages)
if(code EQUAL 0)
  message(FATAL_ERROR "${source}: compiles with GPIPE_FAIL, but must not")
elseif(messages MATCHES "fatal error: [^\n]*")
  message(FATAL_ERROR "${source}: ${CMAKE_MATCH_0}: all its files would be compiled alone")
endif()
get_filename_component(batch ${source} NAME)
file(WRITE ${folder}/${batch}.log "${messages}")
file(STRINGS ${source} names REGEX "^#include .compile_fail/")
list(TRANSFORM names REPLACE ".*compile_fail/(.*)\\.cpp.*" "\\1")
foreach(name IN LISTS names)
  file(WRITE ${folder}/${name}.txt "")
endforeach()
execute_process(COMMAND awk -v folder=${folder} -f ${CMAKE_CURRENT_LIST_DIR}/messages.awk ${folder}/${batch}.log
                COMMAND_ERROR_IS_FATAL ANY)
