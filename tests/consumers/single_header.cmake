# Makes gpipe_plan.hpp in a build of a copy of gpipe, and by the script alone. Planning in this one file is less than a
# megabyte, includes the standard library alone, and compiles without warnings under both compilers; all claims of
# single_header/main.cpp hold.
#     cmake -D CONSUMERS=<this folder> -D SCRATCH=<folder> -D COPY=<gpipe> -D COMPILER=<c++> -D OTHER=<c++>
#           -D OPTIONS=<of cmake> -P single_header.cmake

set(work ${SCRATCH}/single_header)
file(REMOVE_RECURSE ${work})
file(COPY ${CONSUMERS}/single_header/main.cpp DESTINATION ${work})

execute_process(COMMAND ${CMAKE_COMMAND} -S ${COPY} -B ${work}/build -DGPIPE_TESTS=OFF -DGPIPE_EXAMPLES=OFF
                        -DGPIPE_BENCH=OFF ${OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build --target single_header COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -D TO=${work}/gpipe_plan.hpp -P ${COPY}/single_header.cmake
                COMMAND_ERROR_IS_FATAL ANY)
set(made ${work}/gpipe_plan.hpp)
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${made} ${work}/build/gpipe_plan.hpp
                COMMAND_ERROR_IS_FATAL ANY)

file(SIZE ${made} bytes)
if(NOT bytes LESS 1000000)
  message(FATAL_ERROR "gpipe_plan.hpp has ${bytes} bytes; it promises less than 1,000,000")
endif()
file(STRINGS ${made} included REGEX "^ *# *include")
set(outside ${included})
list(FILTER outside EXCLUDE REGEX "^#include <[a-z_]+>$")
if(outside OR NOT included)
  message(FATAL_ERROR "gpipe_plan.hpp includes more than the standard library: ${outside}")
endif()
set(once ${included})
list(REMOVE_DUPLICATES once)
if(NOT once STREQUAL included)
  message(FATAL_ERROR "gpipe_plan.hpp includes a header twice: ${included}")
endif()

set(compilers ${COMPILER} ${OTHER})
list(REMOVE_DUPLICATES compilers)
set(expected "")
foreach(compiler IN LISTS compilers)
  execute_process(COMMAND ${compiler} -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wold-style-cast
                          -Wsign-conversion -Wdouble-promotion -Werror main.cpp -o main
                  WORKING_DIRECTORY ${work} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ./main WORKING_DIRECTORY ${work} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  if(NOT printed MATCHES "\nthe cut is the optimum\n" OR (expected AND NOT printed STREQUAL expected))
    message(FATAL_ERROR "the program prints '${printed}' with ${compiler}, and '${expected}' with the other compiler")
  endif()
  set(expected "${printed}")
endforeach()
