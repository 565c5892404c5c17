# Compiles programs by path, without CMake, from a copy of gpipe: one that only plans, with Boost.Hana alone, and one of
# two translation units without RTTI, with macros min and max. gpipe defines no macros but those listed below.
#     cmake -D CONSUMERS=<this folder> -D SCRATCH=<folder> -D COPY=<gpipe> -D COMPILER=<c++> -D SYSTEM=<include folders>
#           -D VERSION=<x.y.z> [-D LIBXSMM=ON] [-D MPICXX=<mpicxx>] -P by_path.cmake

set(work ${SCRATCH}/by_path)
file(REMOVE_RECURSE ${work})
file(COPY ${CONSUMERS}/ DESTINATION ${work} PATTERN "*.cmake" EXCLUDE)
list(JOIN SYSTEM ":" path)
set(ENV{CPLUS_INCLUDE_PATH} "${path}")
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)

# build(<program> <its output> <arguments of the compiler...>)
function(build program says)
  execute_process(COMMAND ${COMPILER} -std=c++20 ${warnings} -I ${COPY}/include ${ARGN} -o ${program}
                  WORKING_DIRECTORY ${work} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ./${program} WORKING_DIRECTORY ${work} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said STREQUAL "${says}\n")
    message(FATAL_ERROR "the output of ${program} is '${said}', but '${says}' is expected")
  endif()
endfunction()

build(plans "gpipe ${VERSION} idles for 1/7" planning.cpp)

# The external headers that gpipe.hpp may include: the standard library, the system, Boost.Hana and Thrust. None of them
# compiles after macros like those of windows.h. Thrust gets the macros that gpipe defines when there is no CUDA.
file(GLOB_RECURSE headers ${COPY}/include/*.hpp)
set(outside "#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP")
foreach(header IN LISTS headers)
  file(STRINGS ${header} lines REGEX "^#include <([a-z_]+(\\.h)?>|sys/|boost/|thrust/)")
  list(APPEND outside ${lines})
endforeach()
list(REMOVE_DUPLICATES outside)
list(FILTER outside EXCLUDE REGEX "<(io|mpi|nccl|libxsmm|cuda[a-z_]*)\\.h>")  # other systems, optional parts
list(JOIN outside "\n" outside)
file(WRITE ${work}/units/outside.hpp "${outside}\n")

# gpipe.hpp defines these macros, and no others.
file(WRITE ${work}/all.hpp "#include \"units/outside.hpp\"\n#include <gpipe.hpp>\n")
set(macros "'${COMPILER}' -std=c++20 -I '${COPY}/include' -E -dM -x c++")
execute_process(COMMAND bash -c "comm -13 <(${macros} units/outside.hpp | sort) <(${macros} all.hpp | sort) | cut -d ' ' -f 2 | sed 's/(.*//'"
                WORKING_DIRECTORY ${work} OUTPUT_VARIABLE defined COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\n" " " defined "${defined}")
set(known "GPIPE_CANARY GPIPE_HOST_DEVICE GPIPE_COLD GPIPE_OUT_OF_LINE GPIPE_VERSION GPIPE_VERSION_MAJOR GPIPE_VERSION_MINOR GPIPE_VERSION_PATCH ")
if(NOT defined STREQUAL known)
  message(FATAL_ERROR "gpipe.hpp defines '${defined}', but '${known}' is expected")
endif()
set(flags "")
set(libraries "")
if(LIBXSMM)
  set(flags -DGPIPE_WITH_LIBXSMM=1)
  set(libraries -lxsmm -lxsmmnoblas -ldl)
endif()
build(trains "two units train: yes" -fno-rtti ${flags} units/main.cpp units/other.cpp ${libraries} -pthread)

if(MPICXX)
  execute_process(COMMAND ${MPICXX} --showme:compile OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${MPICXX} --showme:link OUTPUT_VARIABLE libraries COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  separate_arguments(libraries UNIX_COMMAND "${libraries}")
  list(TRANSFORM flags REPLACE "^-I" "-isystem")  # its warnings are not ours
  build(in_processes "1 processes" ${flags} processes/main.cpp ${libraries})
endif()
