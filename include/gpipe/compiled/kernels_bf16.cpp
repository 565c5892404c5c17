// A part of the compiled library, see compiled.cpp. The kernels over bf16.

#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 4
#endif

#include <gpipe/train/host_kinds.hpp>
