# Compiles programs by path, without CMake, from a copy of gpipe: one that only plans, with Boost.Hana alone, and one of
# two translation units without RTTI. gpipe defines no macros but those listed below.
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

# The external headers that gpipe.hpp may include: the standard library, the system, Boost.Hana and Thrust. Thrust gets
# the macros that gpipe defines when there is no CUDA.
file(GLOB_RECURSE headers ${COPY}/include/*.hpp)
set(outside "#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP")
foreach(header IN LISTS headers)
  file(STRINGS ${header} lines REGEX "^#include <([a-z_]+(\\.h)?>|sys/|boost/|thrust/)")
  list(APPEND outside ${lines})
endforeach()
list(REMOVE_DUPLICATES outside)
list(FILTER outside EXCLUDE REGEX "<(io|mpi|nccl|hwloc|png|jpeglib|sentencepiece[a-z_]*|libxsmm|cuda[a-z_]*)\\.h>")  # other systems, optional parts
list(JOIN outside "\n" outside)
file(WRITE ${work}/outside.hpp "${outside}\n")

# gpipe.hpp defines these macros, and no others.
file(WRITE ${work}/all.hpp "#include \"outside.hpp\"\n#include <gpipe.hpp>\n")
set(macros "'${COMPILER}' -std=c++20 -I '${COPY}/include' -E -dM -x c++")
execute_process(COMMAND bash -c "comm -13 <(${macros} outside.hpp | sort) <(${macros} all.hpp | sort) | cut -d ' ' -f 2 | sed 's/(.*//'"
                WORKING_DIRECTORY ${work} OUTPUT_VARIABLE defined COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\n" " " defined "${defined}")
set(known "GPIPE_CANARY GPIPE_COLD GPIPE_COMPILED GPIPE_COMPILED_SOURCE GPIPE_HAS_FMA GPIPE_HOST_DEVICE GPIPE_INLINE GPIPE_INLINED GPIPE_NOT_UNROLLED GPIPE_OUT_OF_LINE GPIPE_ROW_LOOP GPIPE_UNROLLED GPIPE_VERSION GPIPE_VERSION_MAJOR GPIPE_VERSION_MINOR GPIPE_VERSION_PATCH GPIPE_WITH_LIBXSMM ")
if(NOT defined STREQUAL known)
  message(FATAL_ERROR "gpipe.hpp defines '${defined}', but '${known}' is expected")
endif()
set(flags "")
set(libraries "")
if(LIBXSMM)
  set(flags -DGPIPE_WITH_LIBXSMM=1)
  set(libraries -lxsmm -lxsmmnoblas -ldl)
endif()
# object(<object> <arguments of the compiler...>): each is compiled once, and serves every program below.
function(object name)
  execute_process(COMMAND ${COMPILER} -std=c++20 ${warnings} -I ${COPY}/include -fno-rtti ${flags} -c ${ARGN} -o ${name}.o
                  WORKING_DIRECTORY ${work} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()
object(main_header_only units/main.cpp)
object(other_header_only units/other.cpp)
build(trains "two units train: yes" main_header_only.o other_header_only.o ${libraries} -pthread)

object(fast_math -O2 -ffast-math units/fast_math.cpp)
build(refuses "NaN is refused: yes" fast_math.o ${libraries} -pthread)

# Two units with the compiled library, by hand. Sources of both modes do not link, in either order, and the linker says
# why.
object(main_compiled -DGPIPE_COMPILED=1 units/main.cpp)
object(other_compiled -DGPIPE_COMPILED=1 units/other.cpp)
object(library -DGPIPE_COMPILED=1 ${COPY}/include/gpipe/compiled.cpp)
build(trains_compiled "two units train: yes" main_compiled.o other_compiled.o library.o ${libraries} -pthread)

# refused(<what the linker says> <objects...>)
function(refused says)
  list(TRANSFORM ARGN APPEND .o)
  execute_process(COMMAND ${COMPILER} ${ARGN} ${libraries} -pthread -o refused WORKING_DIRECTORY ${work}
                  RESULT_VARIABLE failed ERROR_VARIABLE said)
  if(NOT failed OR NOT said MATCHES "${says}")
    message(FATAL_ERROR "linking ${ARGN} should fail with '${says}', and gives ${failed}: '${said}'")
  endif()
endfunction()
set(mixed "gpipe_is_header_only_in_one_source_and_compiled_in_another")
refused(${mixed} main_compiled other_header_only library)
refused(${mixed} main_header_only other_compiled library)
refused(${mixed} other_header_only main_compiled library)
refused(${mixed} main_header_only other_header_only library)

# Nor do header-only sources with different flags. The linker lists those of each.
foreach(flag IN ITEMS -mavx -mavx2 -mfma -ffast-math -D_GLIBCXX_DEBUG)
  file(WRITE ${work}/flags.cpp "#include <gpipe/core/config.hpp>\n")
  object(same flags.cpp)
  object(other ${flag} flags.cpp)
  refused("gpipe_has_different_compiler_flags_in_two_sources" same other)
endforeach()
# Nor do sources with other flags than the library's.
file(WRITE ${work}/fast.cpp "#include <gpipe/core/config.hpp>\n")
object(fast -DGPIPE_COMPILED=1 -ffast-math fast.cpp)
refused("gpipe_compiled_for_[a-z0-9_]*_fast_math_" fast main_compiled other_compiled library)

# The README's program has a plan of the compiler's, saves nothing and has no job. It compiles no planner, no checkpoints,
# nothing that processes do together, and no Thrust.
object(readme -O2 -Wnull-dereference ${COPY}/examples/readme.cpp)
execute_process(COMMAND nm -C readme.o WORKING_DIRECTORY ${work} OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
foreach(name IN ITEMS search_cut memory_limited_cut make_plan tick_index step_programs safetensors thrust join_job
                      set_up_of_jobs process_all_reduce)
  if(names MATCHES "${name}")
    message(FATAL_ERROR "examples/readme.cpp compiles ${name}, which it never calls")
  endif()
endforeach()

# The wrapper of any MPI as the compiler: of Open MPI, MPICH or Intel MPI, each around the same compiler.
if(MPICXX)
  foreach(wrapper IN ITEMS OMPI MPICH I_MPI)
    set(ENV{${wrapper}_CXX} ${COMPILER})
  endforeach()
  set(COMPILER ${MPICXX})
  build(in_processes "1 processes" processes/main.cpp)
endif()
