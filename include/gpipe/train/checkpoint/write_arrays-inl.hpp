#pragma once

#include <cstdint>
#include <string>

#include <gpipe/train/checkpoint/write_arrays.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE void write_arrays(const std::string& folder, const file_list& list, int rank,
                                          std::uint64_t steps, safetensors_metadata facts, const array_reader& read,
                                          file_operations& files) {
  const safetensors_metadata step_text{{"gpipe.steps", std::to_string(steps)}};
  facts.insert(step_text.begin(), step_text.end());
  for (const checkpoint_file& file : list.files) {
    if (file.rank != rank) continue;
    array_source source(file, read);
    write_safetensors_directly(
        folder + '/' + file.name, tensors_of(file), &file == &list.files.front() ? facts : step_text,
        [&](const safetensors_entry& e, safetensors_sink& sink) { source(e, sink); }, files);
  }
}

}  // namespace gpipe::detail
