# A consumer whose warnings are stricter than ours finds none in gpipe's headers, which -I names like its own: in every
# header, in the README's program and in one that uses more. Dependencies' headers are the system's.
#     cmake -D CONSUMERS=<this folder> -D SCRATCH=<folder> -D COPY=<gpipe> -D COMPILER=<c++> -D SYSTEM=<include folders>
#           [-D LIBXSMM=ON] [-D MPICXX=<mpicxx>] -P strict.cmake

set(work ${SCRATCH}/strict)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})
list(JOIN SYSTEM ":" path)
set(ENV{CPLUS_INCLUDE_PATH} "${path}")
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wold-style-cast -Wsign-conversion
             -Wdouble-promotion -Werror)

# The headers that need CUDA, NCCL, MPI, hwloc, libpng, libjpeg, SentencePiece or libxsmm are read where these are.
file(GLOB_RECURSE headers RELATIVE ${COPY}/include ${COPY}/include/*.hpp)
list(FILTER headers EXCLUDE REGEX "cuda|nccl|libxsmm|hwloc|png|jpeg|sentencepiece")
set(mpi "")
if(MPICXX)
  execute_process(COMMAND ${MPICXX} -show OUTPUT_VARIABLE mpi COMMAND_ERROR_IS_FATAL ANY)  # every MPI's wrapper has it
  separate_arguments(mpi UNIX_COMMAND "${mpi}")
  list(FILTER mpi INCLUDE REGEX "^-I")
  list(TRANSFORM mpi REPLACE "^-I" "-isystem")
else()
  list(FILTER headers EXCLUDE REGEX "mpi")
endif()
list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>")
list(JOIN headers "\n" headers)
file(WRITE ${work}/readme.cpp "${headers}\n#include \"${COPY}/examples/readme.cpp\"\n")

# quiet(<file> <arguments of the compiler...>): under the compiler, with libxsmm if it is there, and under clang++
# without, if there is one.
find_program(CLANG clang++)
set(compilers ${COMPILER})
if(CLANG AND NOT COMPILER MATCHES "clang")
  list(APPEND compilers ${CLANG})
endif()
function(quiet file)
  foreach(compiler IN LISTS compilers)
    set(own -Wuseless-cast)
    if(LIBXSMM)
      list(APPEND own -DGPIPE_WITH_LIBXSMM=1)
    endif()
    if(compiler MATCHES "clang")
      set(own "")
    endif()
    execute_process(COMMAND ${compiler} -std=c++20 ${warnings} ${own} -I ${COPY}/include ${ARGN} -fsyntax-only ${file}
                    WORKING_DIRECTORY ${work} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endfunction()

quiet(readme.cpp ${mpi})
quiet(${CONSUMERS}/strict/main.cpp)
quiet(${COPY}/include/gpipe/compiled.cpp -DGPIPE_COMPILED=1)
