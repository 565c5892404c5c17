// A part of the compiled library, see compiled.cpp. The executor and the trainer for the host.

#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 1
#endif

#include <gpipe/runtime/executor-inl.hpp>
#include <gpipe/runtime/join_job-inl.hpp>
#include <gpipe/runtime/parameter_access-inl.hpp>
#include <gpipe/runtime/stage/bound_stage-inl.hpp>
#include <gpipe/runtime/stage/stage_arena-inl.hpp>
#include <gpipe/runtime/worker/pass_runner-inl.hpp>
#include <gpipe/runtime/worker/worker-inl.hpp>
#include <gpipe/tools/generation/decoder-inl.hpp>
#include <gpipe/tools/generation/generator-inl.hpp>
#include <gpipe/train.hpp>
#include <gpipe/train/basic_trainer-inl.hpp>
#include <gpipe/train/fit-inl.hpp>
#include <gpipe/train/model_array-inl.hpp>
#include <gpipe/train/trainer_checkpoints-inl.hpp>

template struct gpipe::detail::device_value<gpipe::host_device>;
template struct gpipe::detail::decode_function<
    gpipe::detail::bound_kind<gpipe::detail::attention_kernels<float, false>>, gpipe::host::context>;
template struct gpipe::detail::decode_function<
    gpipe::detail::bound_kind<gpipe::detail::learned_positions_kernels<float>>, gpipe::host::context>;
