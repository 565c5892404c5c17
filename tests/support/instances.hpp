#pragma once

#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/executor.hpp>

// Templates that every test of a running model instantiates; instances.cpp compiles them once for all tests. Under the
// address sanitizer they take two fifths of such a test's build. Users' programs, and the examples, compile them
// themselves.
extern template class gpipe::stage_arena<gpipe::host_device>;
extern template class gpipe::bound_stage<gpipe::host_device>;
extern template class gpipe::worker<gpipe::host_device>;
extern template class gpipe::executor<gpipe::host_device>;
