#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>
#include <gpipe/record/file/file_operations.hpp>

// The checkpoints of a training are folders in one folder:
//
//     FOLDER/step-00000120/        complete: model.safetensors (or shards and an index) and optimizer.safetensors
//     FOLDER/step-00000130.part/   begun, or being deleted; never read, and removed by the next save
//     FOLDER/step-00000120.old/    only if a file system cannot exchange two names: see commit

namespace gpipe {

/// The result of `newest_checkpoint`.
struct found_checkpoint {
  std::string path{};                  ///< of the newest complete folder; empty if there is none
  long step = -1;                      ///< its step
  std::vector<std::string> skipped{};  ///< newer folders that are incomplete, each with the reason
};

/// The newest checkpoint of a folder whose files all exist and have the sizes that their headers specify.
found_checkpoint newest_checkpoint(const std::string& folder, detail::file_operations& files = detail::system_files());

namespace detail {

/// Writes checkpoints, one at a time: `begin` makes a folder, the caller writes durable files into it, and `commit`
/// gives it its name. After any failure, and whenever the process ends, each checkpoint is the old one, the new one or
/// absent. From `begin` until its destruction an object holds the lock of the folder, if the file system has locks.
class checkpoint_folder {
 public:
  explicit checkpoint_folder(std::string path, file_operations& files = system_files());

  /// Removes the remains of an interrupted save, makes the folder for the files of a step, and returns its path. Throws
  /// if another object, of this or another process, saves into the folder.
  std::string begin(long step);
  /// Makes the files' names durable and gives the folder its name. Replaces an older checkpoint of the same step.
  void commit(long step);
  /// Removes the folder that `begin` made, after a save has failed. Never throws.
  void abandon(long step) noexcept;
  /// Deletes checkpoints before `step` until `keep` are left, including `step`. Checkpoints of later steps stay.
  void keep_newest(long step, int keep);

  std::string part_path(long step) const { return named(step) + ".part"; }

  GPIPE_COLD static std::string name_of_step(long step) {
    const std::string digits = std::to_string(step);
    return "step-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
  }
  struct found {
    std::string name;
    long step;
    std::string_view ending;  // "", ".part" or ".old"
  };
  enum class listed {
    folders,  ///< which a save may rename or delete
    all       ///< also links and files
  };
  /// The entries with names of checkpoints, sorted by step, complete or not.
  std::vector<found> list(listed kinds = listed::folders) const;

 private:
  std::string named(long step) const { return path_ + "/" + name_of_step(step); }
  bool exists(const std::string& path) const { return files_->kind_of(path.c_str()) != file_operations::kind::none; }
  GPIPE_COLD void rename(const std::string& path, const std::string& new_path) {
    if (files_->rename(path.c_str(), new_path.c_str()) != 0) throw_file_error("renaming the checkpoint", path);
  }
  void replace(const std::string& part, const std::string& name);
  void remove_part(const std::string& part);
  void lock();

  std::string path_;
  file_operations* files_;
  std::optional<open_file> locked_{};
};

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/checkpoint_folder-inl.hpp>
#endif
