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
# The first five run what rounds in every check, and all of device/host, layer and laws/same_bits with the label
# "whole"; the others run all with that label. laws/everywhere runs for contract_off in every check, and for all sets
# with the label "whole", also for arm64 and musl, by cross compilers and qemu.

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
    device/host/gemm/gemm device/host/gemm/product_block device/host/gemm/vector device/host/team laws/row_bits)

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
set(all_that_round core/numbers/multiply_add laws/row_bits laws/same_bits
    laws/same_bits_calls laws/same_bits_schedules)
file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} device/host/*.cpp layer/*.cpp
     tools/testing/*.cpp)
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
    instruction_set_tests(${set}/all "${flags}" whole ${batches} support/models.cpp)
  endif()
endforeach()

# Products with the kernels that libxsmm makes for processors without AVX-512 (hsw), and without fused operations (snb).
foreach(path IN ITEMS laws/everywhere device/host/gemm/gemm_tile)
  string(REPLACE "/" "." target tests.${path})
  if(NOT TARGET ${target} OR NOT GPIPE_MACHINE_HAS_avx2_fma)
    continue()
  endif()
  foreach(processor IN ITEMS hsw snb)
    add_test(NAME ${path}/kernels_of_${processor} COMMAND ${target})
    set_tests_properties(${path}/kernels_of_${processor} PROPERTIES
                         ENVIRONMENT LIBXSMM_TARGET=${processor} TIMEOUT ${time_limit} LABELS instruction_sets)
  endforeach()
endforeach()

# laws/everywhere for other systems: arm64 by Debian's g++-aarch64-linux-gnu, and musl (Alpine) for x86-64 and arm64 by
# zig's compiler (the program zig, or Python's package ziglang). qemu-user runs programs of arm64.
find_program(GPIPE_ARM64_COMPILER aarch64-linux-gnu-g++)
find_program(GPIPE_ARM64_EMULATOR qemu-aarch64)
find_program(GPIPE_ZIG zig)
find_path(GPIPE_HANA_HEADERS boost/hana.hpp)
mark_as_advanced(GPIPE_ARM64_COMPILER GPIPE_ARM64_EMULATOR GPIPE_ZIG GPIPE_HANA_HEADERS)
set(zig ${GPIPE_ZIG})
if(NOT GPIPE_ZIG)
  set(zig "")
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(Python3_Interpreter_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -m ziglang version RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed EQUAL 0)
      set(zig ${Python3_EXECUTABLE} -m ziglang)
    endif()
  endif()
endif()
set(other_systems ${CMAKE_CURRENT_BINARY_DIR}/other_systems)  # doctest and Hana, without this system's C library
get_target_property(doctest_headers doctest::doctest INTERFACE_INCLUDE_DIRECTORIES)
list(GET doctest_headers 0 doctest_headers)
file(MAKE_DIRECTORY ${other_systems})
file(CREATE_LINK ${doctest_headers}/doctest ${other_systems}/doctest SYMBOLIC)
file(CREATE_LINK ${GPIPE_HANA_HEADERS}/boost ${other_systems}/boost SYMBOLIC)

# everywhere_in(<system> <what is missing, or ""> <emulator, or ""> <compiler...>)
function(everywhere_in system missing emulator)
  set(name instruction_sets/${system}/laws/everywhere)
  if(missing)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: install ${missing}")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: ")
  else()
    set(program ${other_systems}/${system})
    add_custom_command(OUTPUT ${program}
      COMMAND ${ARGN} -std=c++20 -O2 -static -w -pthread -I ${PROJECT_SOURCE_DIR}/include -I ${other_systems}
              -I ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/laws/everywhere.cpp
              ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp -o ${program}
      DEPENDS laws/everywhere.cpp support/main.cpp ${headers} VERBATIM)
    add_custom_target(tests.instruction_sets.${system} DEPENDS ${program})
    add_test(NAME ${name} COMMAND ${emulator} ${program})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS whole)
endfunction()

set(missing_emulator "")
if(NOT GPIPE_ARM64_EMULATOR)
  set(missing_emulator "qemu-user (Debian, Ubuntu)")
endif()
set(missing_compiler "${missing_emulator}")
if(NOT GPIPE_ARM64_COMPILER)
  set(missing_compiler "g++-aarch64-linux-gnu and qemu-user (Debian, Ubuntu)")
endif()
set(missing_zig "")
if(NOT zig)
  set(missing_zig "ziglang (PyPI)")
  set(missing_emulator "ziglang (PyPI) and qemu-user (Debian, Ubuntu)")
endif()
everywhere_in(arm64 "${missing_compiler}" "${GPIPE_ARM64_EMULATOR}" ${GPIPE_ARM64_COMPILER})
everywhere_in(musl "${missing_zig}" "" ${zig} c++ -target x86_64-linux-musl -mcpu=haswell)
everywhere_in(musl_arm64 "${missing_emulator}" "${GPIPE_ARM64_EMULATOR}" ${zig} c++ -target aarch64-linux-musl)
