# The tests that round numbers, compiled for other processors than this one, by gpipe's own kernels. Test
# instruction_sets/<set>/<path> is test <path>, compiled with the flags of the set:
#
#   x86_64            no fused multiply-add, vectors of 128 bits
#   x86_64_v2         the same with SSE4.2
#   x86_64_v3         AVX2 and FMA
#   x86_64_v4         AVX-512; skipped where this machine has none, as every set that it cannot run
#   znver3            AVX2 and FMA, tuned for a processor on which chains of fused operations are slow: g++ then fuses
#                     the rest of a loop and not its body
#   contract_off      AVX2 and FMA, where the compiler fuses nothing by itself
#   contract_fast     AVX2 and FMA, where it fuses what it can
#
#   unoptimized       AVX2 and FMA, with -O0
#
# The first five run what rounds in every check, and all of device/host, layer and laws/transparency with the label
# "whole"; the others run all with that label. laws/everywhere runs for contract_off in every check, and for all sets
# with the label "whole", also for arm64, by a cross compiler and qemu.

# A set, the processor's features that it needs, and its flags.
set(instruction_sets
    "x86_64|sse2|-march=x86-64"
    "x86_64_v2|sse4.2|-march=x86-64-v2"
    "x86_64_v3|avx2,fma|-march=x86-64-v3"
    "x86_64_v4|avx512f,avx512bw,avx512dq,avx512vl|-march=x86-64-v4"
    "znver3|avx2,fma|-march=x86-64-v3 -mtune=znver3"
    "contract_off|avx2,fma|-march=x86-64-v3 -ffp-contract=off"
    "contract_fast|avx2,fma|-march=x86-64-v3 -ffp-contract=fast"
    "unoptimized|avx2,fma|-march=x86-64-v3 -O0")
set(that_round core/numbers/multiply_add device/host/attention/attention device/host/context
    device/host/convolution/convolution
    device/host/gemm/gemm_bf16 device/host/gemm/gemm_portable device/host/gemm/vector device/host/team laws/row_bits)

# Whether this machine has the features, such as avx2,fma.
function(machine_has features result)
  string(REPLACE "," ";" features "${features}")
  set(all "1")
  foreach(feature IN LISTS features)
    string(APPEND all " && __builtin_cpu_supports(\"${feature}\")")
  endforeach()
  string(MAKE_C_IDENTIFIER "${features}" name)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_runs("int main() { return ${all} ? 0 : 1; }" GPIPE_MACHINE_HAS_${name})
  set(${result} ${GPIPE_MACHINE_HAS_${name}} PARENT_SCOPE)
endfunction()

# instruction_set_tests(<name> <flags> <label> <source...>): the program tests.instruction_sets.<name>, without libxsmm,
# of batches with the tests of `paths`.
function(instruction_set_tests name flags label)
  string(REPLACE "/" "." target tests.instruction_sets.${name})
  add_executable(${target} ${ARGN})
  add_dependencies(${target} tests.main)
  target_link_libraries(${target} PRIVATE $<TARGET_FILE:tests.main> gpipe::dialect gpipe::hana gpipe::thrust
                                          Threads::Threads doctest::doctest)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
  separate_arguments(flags UNIX_COMMAND "${flags}")
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE ${warnings} $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -O3 ${flags})
  string(REGEX REPLACE "^tests." "" output ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output})
  if(label STREQUAL "whole")
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  foreach(path IN LISTS paths)
    add_test(NAME instruction_sets/${name}/${path} COMMAND ${target} --source-file=*/tests/${path}.cpp)
    set_tests_properties(instruction_sets/${name}/${path} PROPERTIES TIMEOUT 600 LABELS ${label})
  endforeach()
endfunction()

# The tests of device/host, layer and testing that can stand behind others in one source, and that need no library.
set(all_that_round core/numbers/multiply_add laws/row_bits laws/transparency)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} device/host/*.cpp layer/*.cpp
     testing/*.cpp)
list(FILTER sources EXCLUDE REGEX "/(gemm_rate|emulated_link)")  # they measure time
foreach(source IN LISTS sources)
  read_build_lines(${source})
  if(together)
    string(REGEX REPLACE "\\.cpp$" "" path ${source})
    list(APPEND all_that_round ${path})
  endif()
endforeach()

include(CheckCXXSourceRuns)
foreach(line IN LISTS instruction_sets)
  string(REPLACE "|" ";" parts "${line}")
  list(POP_FRONT parts set features flags)
  machine_has("${features}" runs)
  if(NOT runs)
    add_test(NAME instruction_sets/${set}
             COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: this machine lacks one of ${features}")
    set_tests_properties(instruction_sets/${set} PROPERTIES LABELS instruction_sets SKIP_REGULAR_EXPRESSION "SKIPPED: ")
    continue()
  endif()
  if(NOT set MATCHES "^contract_|^unoptimized")
    set(paths ${that_round})
    batch_source(instruction_sets.${set} "${paths}" source)
    instruction_set_tests(${set} "${flags}" instruction_sets ${source})
  endif()
  set(paths laws/everywhere)
  set(label whole)
  if(set STREQUAL "contract_off")
    set(label instruction_sets)
  endif()
  instruction_set_tests(${set}/everywhere "${flags}" ${label} laws/everywhere.cpp)
  if(NOT set STREQUAL "unoptimized")
    set(paths ${all_that_round})
    list(LENGTH paths last)
    math(EXPR last "${last} - 1")
    set(batches "")
    foreach(begin RANGE 0 ${last} ${tests_in_a_batch})
      list(SUBLIST paths ${begin} ${tests_in_a_batch} some)
      batch_source(instruction_sets.${set}.all.${begin} "${some}" source)
      list(APPEND batches ${source})
    endforeach()
    instruction_set_tests(${set}/all "${flags}" whole ${batches})
  endif()
endforeach()

# laws/everywhere with the kernels that libxsmm makes for processors without AVX-512.
if(TARGET tests.laws.everywhere AND GPIPE_MACHINE_HAS_avx2_fma)
  add_test(NAME laws/everywhere/avx2_kernels COMMAND tests.laws.everywhere)
  set_tests_properties(laws/everywhere/avx2_kernels PROPERTIES ENVIRONMENT LIBXSMM_TARGET=hsw TIMEOUT ${time_limit}
                                                               LABELS laws)
endif()

# laws/everywhere for arm64: compiled by Debian's g++-aarch64-linux-gnu, and run by qemu-user.
find_program(GPIPE_ARM64_COMPILER aarch64-linux-gnu-g++)
find_program(GPIPE_ARM64_EMULATOR qemu-aarch64)
mark_as_advanced(GPIPE_ARM64_COMPILER GPIPE_ARM64_EMULATOR)
set(name instruction_sets/arm64/everywhere/laws/everywhere)
if(GPIPE_ARM64_COMPILER AND GPIPE_ARM64_EMULATOR)
  get_target_property(doctest_headers doctest::doctest INTERFACE_INCLUDE_DIRECTORIES)
  set(arm64_folder ${CMAKE_CURRENT_BINARY_DIR}/arm64)  # doctest and Hana, without this machine's C library beside them
  find_path(GPIPE_HANA_HEADERS boost/hana.hpp)
  file(MAKE_DIRECTORY ${arm64_folder})
  list(GET doctest_headers 0 doctest_headers)
  file(CREATE_LINK ${doctest_headers}/doctest ${arm64_folder}/doctest SYMBOLIC)
  file(CREATE_LINK ${GPIPE_HANA_HEADERS}/boost ${arm64_folder}/boost SYMBOLIC)
  add_custom_command(OUTPUT ${arm64_folder}/everywhere
    COMMAND ${GPIPE_ARM64_COMPILER} -std=c++20 -O2 -static -pthread -I ${PROJECT_SOURCE_DIR}/include -I ${arm64_folder}
            -I ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/laws/everywhere.cpp
            ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp -o ${arm64_folder}/everywhere
    DEPENDS laws/everywhere.cpp ${headers} VERBATIM)
  add_custom_target(tests.instruction_sets.arm64.everywhere DEPENDS ${arm64_folder}/everywhere)
  add_test(NAME ${name} COMMAND ${GPIPE_ARM64_EMULATOR} ${arm64_folder}/everywhere)
else()
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: install g++-aarch64-linux-gnu and qemu-user")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: ")
endif()
set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS whole)
