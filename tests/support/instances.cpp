#include "support/instances.hpp"

template class gpipe::stage_arena<gpipe::host_device>;
template class gpipe::bound_stage<gpipe::host_device>;
template class gpipe::worker<gpipe::host_device>;
template class gpipe::executor<gpipe::host_device>;
