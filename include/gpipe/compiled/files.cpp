// A part of the compiled library, see compiled.cpp. Files, data and checkpoints.

#include <gpipe/record/checkpoint/header-inl.hpp>
#include <gpipe/record/checkpoint/json_reader-inl.hpp>
#include <gpipe/record/checkpoint/safetensors_file-inl.hpp>
#include <gpipe/record/checkpoint/safetensors_set-inl.hpp>
#include <gpipe/record/file/file_operations-inl.hpp>
#include <gpipe/record/file/read_file-inl.hpp>
#include <gpipe/record/file/write_file-inl.hpp>
#include <gpipe/tools/data/csv-inl.hpp>
#include <gpipe/tools/data/generated_data-inl.hpp>
#include <gpipe/tools/data/idx-inl.hpp>
#include <gpipe/tools/data/mapped_data-inl.hpp>
#include <gpipe/tools/data/mixture-inl.hpp>
#include <gpipe/tools/images/augmented_images-inl.hpp>
#include <gpipe/tools/images/image_folders-inl.hpp>
#include <gpipe/tools/images/image_format-inl.hpp>
#include <gpipe/tools/images/image_set-inl.hpp>
#include <gpipe/tools/log/event_folder-inl.hpp>
#include <gpipe/tools/log/log_file-inl.hpp>
#include <gpipe/tools/scores/text_scores-inl.hpp>
#include <gpipe/train/checkpoint/checkpoint_files-inl.hpp>
#include <gpipe/train/checkpoint/names/map_names-inl.hpp>
#include <gpipe/train/data/batches_by_length-inl.hpp>
#include <gpipe/train/data/data_source-inl.hpp>
#include <gpipe/train/data/dataset-inl.hpp>
#include <gpipe/train/data/row_order-inl.hpp>
