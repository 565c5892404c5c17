# What a product asks for ahead of time is asked for however it is compiled: a call that changes nothing, as asking seems
# to, a compiler may leave out.

file(WRITE ${scratch}/prefetches.cpp "#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/gemm_transposed.hpp>
using tile = gpipe::host::portable_tile;
void product(int n, const gpipe::row_parts<float>& a, const gpipe::row_parts<float>& b, float* c) {
  gpipe::host::gemm_transposed<tile>::multiply_transposed(n, n, n, a, b, c);
}
")
list(TRANSFORM include PREPEND -I)
foreach(level IN ITEMS -O1 -O2 -O3)
  execute_process(COMMAND ${compiler} -std=c++20 ${level} -S -o - ${include} ${scratch}/prefetches.cpp
                  OUTPUT_VARIABLE assembly COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\tprefetch" found "${assembly}")
  list(LENGTH found count)
  if(count LESS 2)  # of the rows that are packed next, and of the block that comes next
    message(SEND_ERROR "with ${level} a product asks for ${count} lines ahead of time")
  endif()
endforeach()
