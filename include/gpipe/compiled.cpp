// The part of gpipe that does not depend on a model, with the kernels of the layers that ship, compiled once for a
// program whose sources have GPIPE_COMPILED=1.
// CMake builds it as gpipe::compiled. By hand:
//
//     g++ -std=c++20 -O2 -pthread -DGPIPE_COMPILED=1 -Iinclude program.cpp include/gpipe/compiled.cpp

#define GPIPE_COMPILED_SOURCE 1

#include <gpipe.hpp>

#include <gpipe/core/concat-inl.hpp>
#include <gpipe/core/descriptions/rate-inl.hpp>
#include <gpipe/core/error-inl.hpp>
#include <gpipe/core/numbers/double_math-inl.hpp>
#include <gpipe/device/host/convolution/convolution_plan-inl.hpp>
#include <gpipe/device/host/convolution/weight_gradient-inl.hpp>
#include <gpipe/model/path-inl.hpp>
#include <gpipe/plan/best/find_best-inl.hpp>
#include <gpipe/plan/constant_plan-inl.hpp>
#include <gpipe/plan/cut/simulated_cut-inl.hpp>
#include <gpipe/plan/make_plan-inl.hpp>
#include <gpipe/plan/model_summary-inl.hpp>
#include <gpipe/plan/summary-inl.hpp>
#include <gpipe/record/checkpoint/checkpoint_folder-inl.hpp>
#include <gpipe/record/checkpoint/convert-inl.hpp>
#include <gpipe/record/checkpoint/header-inl.hpp>
#include <gpipe/record/checkpoint/index-inl.hpp>
#include <gpipe/record/checkpoint/json_reader-inl.hpp>
#include <gpipe/record/checkpoint/safetensors_file-inl.hpp>
#include <gpipe/record/checkpoint/safetensors_set-inl.hpp>
#include <gpipe/record/checkpoint/write_safetensors-inl.hpp>
#include <gpipe/record/file/file_operations-inl.hpp>
#include <gpipe/record/file/mapped_file-inl.hpp>
#include <gpipe/record/file/read_file-inl.hpp>
#include <gpipe/record/file/replace_file-inl.hpp>
#include <gpipe/record/file/write_file-inl.hpp>
#include <gpipe/record/log/event_folder-inl.hpp>
#include <gpipe/record/log/log_file-inl.hpp>
#include <gpipe/record/log/log_output-inl.hpp>
#include <gpipe/runtime/join_job-inl.hpp>
#include <gpipe/train/basic_trainer-inl.hpp>
#include <gpipe/train/checkpoint/checkpoint_files-inl.hpp>
#include <gpipe/train/checkpoint/facts-inl.hpp>
#include <gpipe/train/checkpoint/names/hugging_face-inl.hpp>
#include <gpipe/train/checkpoint/names/map_names-inl.hpp>
#include <gpipe/train/checkpoint/names/match-inl.hpp>
#include <gpipe/train/checkpoint/names/model_config-inl.hpp>
#include <gpipe/train/checkpoint/names/stored_array-inl.hpp>
#include <gpipe/train/checkpoint/names/torchvision-inl.hpp>
#include <gpipe/train/checkpoint/names/transpose-inl.hpp>
#include <gpipe/train/checkpoint/read_arrays-inl.hpp>
#include <gpipe/train/checkpoint/write_arrays-inl.hpp>
#include <gpipe/train/data/augmented_images-inl.hpp>
#include <gpipe/train/data/batch_request-inl.hpp>
#include <gpipe/train/data/batches_by_length-inl.hpp>
#include <gpipe/train/data/csv-inl.hpp>
#include <gpipe/train/data/data_source-inl.hpp>
#include <gpipe/train/data/dataset-inl.hpp>
#include <gpipe/train/data/generated_data-inl.hpp>
#include <gpipe/train/data/idx-inl.hpp>
#include <gpipe/train/data/images/cifar10-inl.hpp>
#include <gpipe/train/data/images/idx_images-inl.hpp>
#include <gpipe/train/data/images/image_folders-inl.hpp>
#include <gpipe/train/data/images/image_set-inl.hpp>
#include <gpipe/train/data/images/pnm-inl.hpp>
#include <gpipe/train/data/mapped_data-inl.hpp>
#include <gpipe/train/data/mixture-inl.hpp>
#include <gpipe/train/data/prefetched_stream-inl.hpp>
#include <gpipe/train/data/row_order-inl.hpp>
#include <gpipe/train/fit-inl.hpp>
#include <gpipe/train/generation/decoder-inl.hpp>
#include <gpipe/train/generation/generator-inl.hpp>
#include <gpipe/train/model_array-inl.hpp>
#include <gpipe/train/text_scores-inl.hpp>
#include <gpipe/train/trainer_checkpoints-inl.hpp>

#if !GPIPE_COMPILED
#error "gpipe: compiled.cpp belongs to programs whose sources are all compiled with -DGPIPE_COMPILED=1"
#endif

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
