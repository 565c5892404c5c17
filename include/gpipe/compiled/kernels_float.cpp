// A part of the compiled library, see compiled.cpp. The kernels over floats of the layers that ship.

#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 2
#endif

#include <gpipe/device/host/convolution/convolution_plan-inl.hpp>
#include <gpipe/train/host_kinds.hpp>
