// The part of gpipe that does not depend on a model, compiled once for a program whose sources have GPIPE_COMPILED=1.
// CMake builds it as gpipe::compiled. By hand:
//
//     g++ -std=c++20 -O2 -pthread -DGPIPE_COMPILED=1 -Iinclude program.cpp include/gpipe/compiled.cpp

#define GPIPE_COMPILED_SOURCE 1

#include <gpipe.hpp>
#include <gpipe/record/checkpoint/checkpoint_folder.hpp>
#include <gpipe/plan/constant_plan-inl.hpp>
#include <gpipe/plan/make_plan-inl.hpp>
#include <gpipe/runtime/join_job-inl.hpp>
#include <gpipe/train/basic_trainer_bodies.hpp>
#include <gpipe/train/trainer_checkpoints-inl.hpp>

#if !GPIPE_COMPILED
#error "gpipe: compiled.cpp belongs to programs whose sources are all compiled with -DGPIPE_COMPILED=1"
#endif

template class gpipe::detail::stage_arena<gpipe::host_device>;
template class gpipe::detail::bound_stage<gpipe::host_device>;
template class gpipe::detail::worker<gpipe::host_device>;
template class gpipe::executor<gpipe::host_device>;
template class gpipe::basic_trainer<gpipe::host_device>;
template struct gpipe::detail::trainer_checkpoints<gpipe::host_device>;
