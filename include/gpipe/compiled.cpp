// The part of gpipe that does not depend on a model, with the kernels of the layers that ship, compiled once for a
// program whose sources have GPIPE_COMPILED=1.
// CMake builds it as gpipe::compiled, from the sources that are included here, on all cores. By hand, in one source:
//
//     g++ -std=c++20 -O2 -pthread -DGPIPE_COMPILED=1 -Iinclude program.cpp include/gpipe/compiled.cpp

#define GPIPE_COMPILED_SOURCE 7

// change: a compiled definition; the sources that list these files
#include <gpipe/compiled/files.cpp>
#include <gpipe/compiled/kernels_bf16.cpp>
#include <gpipe/compiled/kernels_float.cpp>
#include <gpipe/compiled/planner.cpp>
#include <gpipe/compiled/runtime.cpp>
