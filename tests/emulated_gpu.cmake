# The tests for GPUs, and the examples that train on them, run on emulated GPUs: nvcc compiles them to PTX, and the
# library of support/emulated_gpu takes the place of CUDA's, cuBLASLt's and NCCL's. Test cuda/context/emulated is
# cuda/context.cu with short settings; with more, and with full ones, under the label "whole", whose programs take
# nvcc minutes. In batches all that is short is one program, without whole networks.

find_package(Python3 3.8 COMPONENTS Interpreter QUIET)
set(missing "")
if(NOT Python3_FOUND)
  set(missing "python3, which translates kernels")
elseif(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(missing "a processor of x86-64, whose threads the emulated GPU switches")
endif()
if(missing)
  add_test(NAME cuda/emulated
           COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED, NOTHING RAN ON A GPU: missing ${missing}")
  set_tests_properties(cuda/emulated PROPERTIES LABELS "cuda;all" SKIP_REGULAR_EXPRESSION "SKIPPED")
  return()
endif()

file(GLOB emulator CONFIGURE_DEPENDS support/emulated_gpu/*.cpp)
find_path(GPIPE_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT GPIPE_NCCL_INCLUDE_DIR)
  list(FILTER emulator EXCLUDE REGEX "/nccl\\.cpp$")
endif()
add_library(tests.emulated_gpu SHARED EXCLUDE_FROM_ALL ${emulator})
target_include_directories(tests.emulated_gpu SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_features(tests.emulated_gpu PRIVATE cxx_std_20)
target_compile_options(tests.emulated_gpu PRIVATE -O2 -mfma -fno-strict-aliasing)
target_compile_definitions(tests.emulated_gpu PRIVATE
  GPIPE_EMULATOR_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}/support/emulated_gpu")
target_link_libraries(tests.emulated_gpu PRIVATE ${CMAKE_DL_LIBS})

add_library(tests.emulated_main OBJECT EXCLUDE_FROM_ALL support/gpu_main.cpp)
target_link_libraries(tests.emulated_main PUBLIC gpipe_own doctest::doctest)
target_include_directories(tests.emulated_main SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_options(tests.emulated_main PRIVATE -O0)

# emulated_program(<target> <source> [FULL]): without the libraries that the emulated one replaces. FULL has all types
# and networks, for both architectures.
# The host's code is not optimized. nvcc hands its own -O3 to the host's compiler behind all that -Xcompiler gives, where
# it would win, and take four times as long. Kernels are optimized without it.
foreach(configuration IN ITEMS DEBUG RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REGEX REPLACE "(^| )-O[0-3s]" "" CMAKE_CUDA_FLAGS_${configuration} "${CMAKE_CUDA_FLAGS_${configuration}}")
endforeach()
function(emulated_program target source)
  cmake_parse_arguments(PARSE_ARGV 2 given "FULL" "" "")
  gpipe_program(${target} ${source})
  only_for_all(${target})
  set(architectures 80-virtual)
  if(given_FULL)
    list(APPEND architectures 90-virtual)
  endif()
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${architectures}" CUDA_RUNTIME_LIBRARY None
                                             LINKER_LANGUAGE CXX)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--no-compress>)
  target_compile_definitions(${target} PRIVATE GPIPE_WITH_NCCL=$<BOOL:${GPIPE_NCCL_INCLUDE_DIR}>
                             GPIPE_TEST_FEW=$<NOT:$<BOOL:${given_FULL}>>)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE tests.emulated_gpu doctest::doctest)
endfunction()

# emulated_test(<name> <labels> <environment...> COMMAND <command...>)
function(emulated_test name labels)
  cmake_parse_arguments(PARSE_ARGV 2 given "" "" "COMMAND")
  add_test(NAME ${name} COMMAND ${given_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 1200
    ENVIRONMENT "EMULATED_CACHE=${CMAKE_CURRENT_BINARY_DIR}/kernels;EMULATED_GPUS=2;${given_UNPARSED_ARGUMENTS}")
endfunction()

# The emulated GPU finds planted faults.
foreach(name IN ITEMS faults double_in_type)
  emulated_program(tests.support.emulated_gpu.${name} support/emulated_gpu/${name}.cu)
endforeach()
emulated_test(support/emulated_gpu/faults "cuda;all" COMMAND
  ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:tests.support.emulated_gpu.faults>
                   -D DOUBLE_IN_TYPE=$<TARGET_FILE:tests.support.emulated_gpu.double_in_type>
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/support/emulated_gpu/faults.cmake)

# It counts what kernels do.
emulated_program(tests.support.emulated_gpu.counts support/emulated_gpu/counts.cu)
target_link_libraries(tests.support.emulated_gpu.counts PRIVATE tests.emulated_main)
emulated_test(support/emulated_gpu/counts "cuda;all" EMULATED_COUNTS=1 COMMAND tests.support.emulated_gpu.counts)

# Each test with its program. In one batch all that are short are one program.
if(GPIPE_TEST_BATCHES)
  emulated_program(tests.batches.emulated ${CMAKE_CURRENT_BINARY_DIR}/batches/gpu.cu)
  target_link_libraries(tests.batches.emulated PRIVATE tests.emulated_main)
endif()
# order_test(<name> <labels> <program> <order...>): the same bits in every order that streams and events allow.
function(order_test name labels program)
  emulated_test(${name} "${labels}" GPIPE_TEST_SHORT=1 COMMAND
    ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${program}> "-DFILTER=--test-case=the bits*,a graph that is launched*"
                     "-DORDERS=${ARGN}" -P ${CMAKE_CURRENT_SOURCE_DIR}/support/emulated_gpu/orders.cmake)
endfunction()

set(programs "")
foreach(path IN LISTS sources)
  string(REPLACE "/" "." target tests.${path}.emulated)
  emulated_program(${target} ${path}.cu FULL)
  target_link_libraries(${target} PRIVATE tests.emulated_main)
  set(program ${target})
  set(command ${target})
  set(labels cuda all)
  if(GPIPE_TEST_BATCHES AND path IN_LIST short_sources)
    set(program tests.batches.emulated)
    set(command tests.batches.emulated --source-file=*/tests/${path}.cu)
  elseif(GPIPE_TEST_BATCHES)
    set(labels cuda whole)
  endif()
  if("all" IN_LIST labels)
    list(APPEND programs ${program})
  endif()
  emulated_test(${path}/emulated "${labels}" GPIPE_TEST_SHORT=1 COMMAND ${command})
  if(path STREQUAL "cuda/training")
    order_test(${path}/emulated/orders "${labels}" ${program} late needed 1 2)
    set_tests_properties(${path}/emulated/orders PROPERTIES DEPENDS ${path}/emulated)  # which compiles the kernels
    foreach(seed RANGE 3 20)
      list(APPEND seeds ${seed})
    endforeach()
    order_test(${path}/emulated/seeds "cuda;whole" ${target} ${seeds})
  endif()
  emulated_test(${path}/emulated/full "cuda;whole" COMMAND ${target})
  foreach(order late needed)
    emulated_test(${path}/emulated/${order} "cuda;whole" GPIPE_TEST_SHORT=1 EMULATED_ORDER=${order} COMMAND ${target})
  endforeach()
  emulated_test(${path}/emulated/sm_90 "cuda;whole" GPIPE_TEST_SHORT=1 EMULATED_ARCHITECTURE=90 COMMAND ${target})
endforeach()

# The registers of all kernels in the programs of short tests.
list(REMOVE_DUPLICATES programs)
list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>")
add_test(NAME cuda/registers
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/cuda/registers.py
                 $<IF:$<BOOL:${GPIPE_TEST_BATCHES}>,some,all> ${CUDAToolkit_BIN_DIR}/ptxas sm_80,sm_90
                 ${CMAKE_CURRENT_SOURCE_DIR}/cuda/registers.md ${programs})
set_tests_properties(cuda/registers PROPERTIES TIMEOUT 300 LABELS "cuda;all")

# The examples that train on GPUs, on the first 320 digits and on the first of the change log: the last two lines do not
# change. See support/emulated_gpu/same_lines.cmake for the ways to run.
if(NOT GPIPE_TEST_ROOMS)
  set(data ${CMAKE_CURRENT_BINARY_DIR}/digits_320.csv)
  file(STRINGS ${PROJECT_SOURCE_DIR}/examples/data/digits.csv lines LIMIT_COUNT 320)
  list(JOIN lines "\n" lines)
  file(CONFIGURE OUTPUT ${data} CONTENT "${lines}\n" @ONLY)
  set(digits_arguments --epochs 1 --data ${data})
  set(digits_rounding 157)  # one of 64 digits
  set(gpt_arguments --text ${PROJECT_SOURCE_DIR}/CHANGELOG.md --steps 1 --batch 8 --sample-every 0)
  set(gpt_rounding 50)
  set(short_ways "1 at_once --stages 1")
  set(digits_ways "1 at_once --stages 1" "1 late --stages 2" "2 needed --stages 2" "1 2 --stages 4" "2 3 --stages 4"
                  "2 1 --stages 2 --workers 1 --graph" "2 4 --stages 4 --workers 1 --graph"
                  "2 5 --stages 4 --graph")
  set(gpt_ways "1 at_once --stages 1" "2 needed --stages 4" "2 3 --stages 2 --workers 1 --graph")  # minutes each
  if(runs_processes AND GPIPE_NCCL_INCLUDE_DIR)
    list(APPEND short_ways "2 5 --stages 2 --transport mpi")
    list(APPEND digits_ways "2 5 --stages 2 --transport mpi" "4 late --stages 4 --transport mpi")
    list(APPEND gpt_ways "2 at_once --stages 2 --transport mpi")
  endif()
  # same_lines_test(<name of the test> <labels> <example> <precision> <way...>)
  function(same_lines_test test labels name precision)
    emulated_test(examples/${name}/emulated/${test} "${labels}" ${processes_environment} COMMAND
      ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:tests.examples.${name}.emulated>
                       "-DARGUMENTS=${${name}_arguments};--precision;${precision}"
                       "-DWAYS=${ARGN}" -D ROUNDING=${${name}_rounding}
                       -P ${CMAKE_CURRENT_SOURCE_DIR}/support/emulated_gpu/same_lines.cmake)
    set_tests_properties(examples/${name}/emulated/${test} PROPERTIES TIMEOUT 3600)
  endfunction()
  foreach(name IN ITEMS digits gpt)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/batches/${name}.cu)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${PROJECT_SOURCE_DIR}/examples/${name}.cpp\"\n" @ONLY)
    emulated_program(tests.examples.${name}.emulated ${source})
    target_link_libraries(tests.examples.${name}.emulated PRIVATE $<TARGET_NAME_IF_EXISTS:gpipe::mpi>)
    target_compile_definitions(tests.examples.${name}.emulated PRIVATE
      GPIPE_WITH_CUDA=1 GPIPE_EXAMPLES_DATA="${PROJECT_SOURCE_DIR}/examples/data")
    foreach(precision IN ITEMS float32 bf16)
      same_lines_test(${precision} "examples;whole" ${name} ${precision} ${${name}_ways})
    endforeach()
  endforeach()
  same_lines_test(short "examples;all" digits float32 ${short_ways})
endif()
