# Compiles the whole library where no header of CUDA's runtime is to be found: Thrust alone, as Debian ships it. Where
# there is no Thrust, or no Boost, the first error names what to install.

set(ENV{LC_ALL} C)
execute_process(COMMAND ${compiler} -xc++ -E -v /dev/null ERROR_VARIABLE told OUTPUT_QUIET)
string(REGEX MATCHALL "\n /[^\n]*" folders "${told}")
set(flags -nostdinc)
foreach(folder IN LISTS folders)
  string(STRIP "${folder}" folder)
  if(IS_DIRECTORY "${folder}" AND NOT EXISTS "${folder}/cuda_runtime_api.h")
    list(APPEND flags -isystem ${folder})
  endif()
endforeach()
foreach(folder IN LISTS include)
  if(NOT EXISTS "${folder}/cuda_runtime_api.h")
    list(APPEND flags -I${folder})
  endif()
endforeach()
file(WRITE ${scratch}/plain_machine.cpp "#include <gpipe.hpp>
#include <gpipe/thrust.hpp>
#if __has_include(<cuda_runtime_api.h>)
#error this test hides it
#endif
")
execute_process(COMMAND ${compiler} -std=c++20 -fsyntax-only ${flags} ${scratch}/plain_machine.cpp
                RESULT_VARIABLE code ERROR_VARIABLE messages)
if(code)
  string(SUBSTRING "${messages}" 0 2000 messages)
  message(FATAL_ERROR "${messages}")
endif()

# needs(<header> <package>): without the system's headers, the first error of a header of ours names the package.
function(needs header package)
  execute_process(COMMAND ${compiler} -std=c++20 -fsyntax-only -nostdinc -I ${CMAKE_CURRENT_LIST_DIR}/../include -xc++
                          ${CMAKE_CURRENT_LIST_DIR}/../include/gpipe/${header} ERROR_VARIABLE messages)
  string(REGEX MATCH "error: [^\n]*" first "${messages}")
  if(NOT first MATCHES "install ${package}")
    message(SEND_ERROR "${header} without ${package} says: ${messages}")
  endif()
endfunction()
needs(device/host/thrust_policy.hpp libthrust-dev)
needs(model/hana.hpp libboost-dev)
