#pragma once

#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/executor.hpp>

// The executor of the host, which a program with GPIPE_COMPILED=1 takes from the library.
#if GPIPE_COMPILED && !(GPIPE_COMPILED_SOURCE & 1)
extern template class gpipe::detail::stage_arena<gpipe::host_device>;
extern template class gpipe::detail::bound_stage<gpipe::host_device>;
extern template class gpipe::detail::worker<gpipe::host_device>;
extern template class gpipe::executor<gpipe::host_device>;
#endif
