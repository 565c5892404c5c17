#pragma once

#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/executor.hpp>

// What every test that runs a model instantiates is compiled once for all of them, in instances.cpp: under the address
// sanitizer it is two fifths of such a test's build. Users' programs, and the examples, compile it themselves.
extern template class gpipe::stage_arena<gpipe::host_device>;
extern template class gpipe::bound_stage<gpipe::host_device>;
extern template class gpipe::worker<gpipe::host_device>;
extern template class gpipe::executor<gpipe::host_device>;
