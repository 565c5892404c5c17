#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
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

GPIPE_COLD inline checkpoint_folder::checkpoint_folder(std::string path, file_operations& files)
    : path_(std::move(path)), files_(&files) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

GPIPE_COLD inline std::vector<checkpoint_folder::found> checkpoint_folder::list(listed kinds) const {
  std::vector<std::string> names;
  if (files_->list(path_.c_str(), names) != 0) throw_file_error("reading the folder", path_);
  std::vector<found> steps;
  for (std::string& name : names) {
    std::string_view stem = name, ending;
    for (const std::string_view possible : {".part", ".old"})
      if (stem.ends_with(possible)) ending = possible, stem.remove_suffix(possible.size());
    if (!stem.starts_with("step-")) continue;
    long step = 0;
    if (std::from_chars(stem.data() + 5, stem.data() + stem.size(), step).ec != std::errc{} || step < 0 ||
        name_of_step(step) != stem)
      continue;
    if (kinds == listed::folders && files_->kind_of((path_ + "/" + name).c_str()) != file_operations::kind::folder)
      continue;
    steps.push_back({std::move(name), step, ending});
  }
  std::sort(steps.begin(), steps.end(), [](const found& a, const found& b) {
    return a.step != b.step ? a.step < b.step : a.ending > b.ending;  // the one without an ending comes last
  });
  return steps;
}

GPIPE_COLD inline void checkpoint_folder::remove_part(const std::string& part) {
  std::vector<std::string> names;
  if (files_->list(part.c_str(), names) != 0) throw_file_error("reading the folder", part);
  for (const std::string& name : names) {
    const std::string file = concat({part, "/", name});
    if (files_->kind_of(file.c_str()) == file_operations::kind::folder) remove_part(file);  // a user's
    else if (files_->remove_file(file.c_str()) != 0) throw_file_error("deleting the file", file);
  }
  if (files_->remove_folder(part.c_str()) != 0) throw_file_error("deleting the folder", part);
}

/// Two savers would delete each other's unfinished files, and one could then give a name to an incomplete checkpoint.
GPIPE_COLD inline void checkpoint_folder::lock() {
  if (locked_) return;
  open_file folder(*files_, path_, O_RDONLY | O_DIRECTORY);
  if (!folder.lock())
    throw_error({"another training is saving into the folder"}, {"give each training a folder of its own"},
                {.file = path_});
  locked_.emplace(std::move(folder));
}

GPIPE_COLD inline std::string checkpoint_folder::begin(long step) {
  using kind = file_operations::kind;
  if (step < 0) throw_error({"the step is ", step}, {"count steps from 0"});
  if (files_->make_folder(path_.c_str()) == 0) {
    const auto slash = path_.rfind('/');
    sync_folder(*files_, slash == std::string::npos ? "." : slash == 0 ? "/" : path_.substr(0, slash));
  } else if (errno != EEXIST) {
    throw_file_error("creating the folder", path_);
  }
  lock();
  for (const found& f : list()) {
    const std::string left = concat({path_, "/", f.name});
    if (f.ending == ".part") {
      try {
        remove_part(left);
      } catch (const error&) {  // one that cannot be removed must not prevent all later saves
        if (f.step == step) throw;
      }
    }
    if (f.ending != ".old") continue;
    // A commit without exchange was interrupted. If that was before its second rename, the old checkpoint is restored.
    if (!exists(named(f.step))) {
      rename(left, named(f.step));
    } else {
      rename(left, part_path(f.step));
      sync_folder(*files_, path_);
      remove_part(part_path(f.step));
    }
  }
  if (const kind present = files_->kind_of(named(step).c_str()); present != kind::none && present != kind::folder)
    throw_error({"the checkpoint's name belongs to something that is no folder"},
                {"remove it, or choose another folder"}, {.file = named(step)});
  std::string part = part_path(step);
  if (files_->make_folder(part.c_str()) != 0) throw_file_error("creating the folder", part);
  return part;
}

GPIPE_COLD inline void checkpoint_folder::replace(const std::string& part, const std::string& name) {
  if (files_->exchange(part.c_str(), name.c_str()) == 0) {
    try {
      sync_folder(*files_, path_);
    } catch (...) {  // the old one must not lose its files while its name may come back
      files_->exchange(part.c_str(), name.c_str());
      throw;
    }
    return remove_part(part);
  }
  if (errno != ENOSYS && errno != EINVAL && errno != EOPNOTSUPP) throw_file_error("renaming the checkpoint", part);
  // Without exchange there is a moment without `name`. Readers then read the old checkpoint under its other name.
  const std::string old = name + ".old";
  rename(name, old);
  try {
    sync_folder(*files_, path_);
    rename(part, name);
  } catch (...) {
    files_->rename(old.c_str(), name.c_str());
    throw;
  }
  sync_folder(*files_, path_);
  rename(old, part);
  sync_folder(*files_, path_);
  remove_part(part);
}

GPIPE_COLD inline void checkpoint_folder::commit(long step) {
  const std::string part = part_path(step), name = named(step);
  sync_folder(*files_, part);
  if (exists(name)) return replace(part, name);
  rename(part, name);
  sync_folder(*files_, path_);
}

GPIPE_COLD inline void checkpoint_folder::abandon(long step) noexcept {
  try {
    if (locked_ && exists(part_path(step))) remove_part(part_path(step));  // else it is another saver's
  } catch (...) {                                                          // the next save removes it
  }
}

GPIPE_COLD inline void checkpoint_folder::keep_newest(long step, int keep) {
  if (keep < 1) throw_error({"the number of checkpoints to keep is ", keep}, {"keep at least 1"});
  std::vector<found> before;
  for (found& f : list())
    if (f.step < step && f.ending.empty()) before.push_back(std::move(f));
  const auto kept = static_cast<std::size_t>(keep - 1);
  // The oldest first. A folder loses its name before its files: a folder with a name is complete.
  for (std::size_t i = 0; i + kept < before.size(); ++i) {
    const std::string name = path_ + "/" + before[i].name, part = name + ".part";
    if (exists(part)) remove_part(part);
    rename(name, part);
    sync_folder(*files_, path_);
    remove_part(part);
  }
}

}  // namespace detail

/// The newest checkpoint of a folder whose files all exist and have the sizes that their headers specify.
GPIPE_COLD inline found_checkpoint newest_checkpoint(const std::string& folder,
                                                     detail::file_operations& files = detail::system_files()) {
  using detail::checkpoint_folder;
  // A concurrent save may delete old checkpoints: then the list is read again.
  for (int retries = 10;; --retries) {
    const auto entries = checkpoint_folder(folder, files).list(checkpoint_folder::listed::all);
    found_checkpoint result;
    bool changed = false;
    for (auto entry = entries.rbegin(); entry != entries.rend() && !changed; ++entry) {
      if (entry->ending == ".part") continue;
      const std::string path = folder + "/" + entry->name;
      try {
        detail::open_set(path, "model", files);
        detail::open_set(path, "optimizer", files);
        result.path = path, result.step = entry->step;
        return result;
      } catch (const error& e) {
        result.skipped.push_back(entry->name + ": " + e.what());
        changed = retries > 0 && files.kind_of(path.c_str()) == detail::file_operations::kind::none;
      }
    }
    if (!changed) return result;
  }
}

}  // namespace gpipe
