#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/data_position.hpp>
#include <gpipe/train/checkpoint/names/name_map.hpp>

namespace gpipe {

/// How `basic_trainer::save` writes a checkpoint.
struct save_options {
  int keep = 3;              ///< the newest checkpoints that stay in the folder
  data_position position{};  ///< where the training resumes in its data; `load` returns it
  /// If false, the call returns when the arrays have been copied, and a thread writes them during the training; the
  /// copy takes as much memory as the arrays. A failure is thrown by `wait_for_save`, or by the next save. In a job
  /// of processes the call always waits.
  bool wait = true;
  /// In a folder: a larger model is written to several files and an index. A path that ends with .safetensors is one
  /// file, for which a number below the model's size is refused.
  static constexpr std::uint64_t default_file_bytes = std::uint64_t{4} << 30;
  std::uint64_t max_file_bytes = default_file_bytes;
  name_map names{};  ///< of the model alone, in a .safetensors file: the names and layouts of another program
  file_layout layout = file_layout::automatic;  ///< of the model: PyTorch's, or `file_layout::gpipe`
  /// Texts that belong to the model, by name: the scale of its data, its vocabulary, its classes. They are stored in
  /// the header of the model's file, and `load` returns them. Texts are UTF-8.
  std::map<std::string, std::string> texts{};
};

/// The part of a file that `basic_trainer::load` takes.
enum class load_mode : std::uint8_t {
  exact,    ///< all, and the names and shapes must be the model's
  partial,  ///< the parameters and the state that fit; moments and the step count stay as they are
};

/// How `basic_trainer::load` reads a file.
struct load_options {
  load_mode mode = load_mode::exact;
  name_map names{};                             ///< of a model that another program has written
  file_layout layout = file_layout::automatic;  ///< of a file that does not name its layout
  /// In a folder whose newest checkpoint cannot be read: take the newest one that can. `load_result::skipped` names the
  /// others. If false, such a folder is an error.
  bool allow_older = false;
};

/// The result of `basic_trainer::load`.
struct load_result : load_report {
  std::string path{};                          ///< the checkpoint's folder, or the file
  std::vector<std::string> skipped{};          ///< newer checkpoints that cannot be read, each with the reason
  std::uint64_t steps = 0;                     ///< the trainer's steps now
  std::uint64_t seed = 0;                      ///< the trainer's seed now; the seed of `fit` is another one
  data_position position{};                    ///< as it was saved
  std::vector<std::string> frozen{};           ///< the parameters that the checkpoint has frozen by `freeze`
  std::map<std::string, std::string> texts{};  ///< `save_options::texts`, or the texts of another program
};

}  // namespace gpipe
