// The part of gpipe that does not depend on a model, with the kernels of the layers that ship, compiled once for a
// program whose sources have GPIPE_COMPILED=1.
// CMake builds it as gpipe::compiled. By hand:
//
//     g++ -std=c++20 -O2 -pthread -DGPIPE_COMPILED=1 -Iinclude program.cpp include/gpipe/compiled.cpp

#define GPIPE_COMPILED_SOURCE 1

#include <gpipe.hpp>
#include <gpipe/record/checkpoint/checkpoint_folder.hpp>
#include <gpipe/train/basic_trainer_bodies.hpp>
#include <gpipe/train/data/pictures/cifar10.hpp>
#include <gpipe/train/data/pictures/idx_pictures.hpp>
#include <gpipe/train/data/pictures/picture_folders.hpp>

#if !GPIPE_COMPILED
#error "gpipe: compiled.cpp belongs to programs whose sources are all compiled with -DGPIPE_COMPILED=1"
#endif

template class gpipe::detail::stage_arena<gpipe::host_device>;
template class gpipe::detail::bound_stage<gpipe::host_device>;
template class gpipe::detail::worker<gpipe::host_device>;
template class gpipe::executor<gpipe::host_device>;
template class gpipe::basic_trainer<gpipe::host_device>;
template struct gpipe::detail::decode_function<
    gpipe::detail::bound_kind<gpipe::detail::attention_kernels<float, false>>, gpipe::host::context>;
template struct gpipe::detail::decode_function<
    gpipe::detail::bound_kind<gpipe::detail::learned_positions_kernels<float>>, gpipe::host::context>;
