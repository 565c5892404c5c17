// A part of the compiled library, see compiled.cpp. The executor and the trainer for the host.

#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 1
#endif

#include <gpipe/runtime/join_job-inl.hpp>
#include <gpipe/tools/generation/decoder-inl.hpp>
#include <gpipe/tools/generation/generator-inl.hpp>
#include <gpipe/train.hpp>
#include <gpipe/train/basic_trainer-inl.hpp>
#include <gpipe/train/fit-inl.hpp>
#include <gpipe/train/model_array-inl.hpp>
#include <gpipe/train/trainer_checkpoints-inl.hpp>

template class gpipe::detail::stage_arena<gpipe::host_device>;
template class gpipe::detail::bound_stage<gpipe::host_device>;
template class gpipe::detail::worker<gpipe::host_device>;
template class gpipe::executor<gpipe::host_device>;
template class gpipe::basic_trainer<gpipe::host_device>;
template class gpipe::model_array<gpipe::host_device>;
template struct gpipe::detail::trainer_checkpoints<gpipe::host_device>;
template struct gpipe::detail::decode_function<
    gpipe::detail::bound_kind<gpipe::detail::attention_kernels<float, false>>, gpipe::host::context>;
template struct gpipe::detail::decode_function<
    gpipe::detail::bound_kind<gpipe::detail::learned_positions_kernels<float>>, gpipe::host::context>;
