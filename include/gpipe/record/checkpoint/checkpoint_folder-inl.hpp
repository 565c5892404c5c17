#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/checkpoint_folder.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE checkpoint_folder::checkpoint_folder(std::string path, file_operations& files)
    : path_(std::move(path)), files_(&files) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

GPIPE_COLD GPIPE_INLINE std::vector<checkpoint_folder::found> checkpoint_folder::list(listed kinds) const {
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

GPIPE_COLD GPIPE_INLINE void checkpoint_folder::remove_part(const std::string& part) {
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
GPIPE_COLD GPIPE_INLINE void checkpoint_folder::lock() {
  if (locked_) return;
  open_file folder(*files_, path_, O_RDONLY | O_DIRECTORY);
  if (!folder.lock())
    throw_error({"another training is saving into the folder"}, {"give each training a folder of its own"},
                {.file = path_});
  locked_.emplace(std::move(folder));
}

GPIPE_COLD GPIPE_INLINE std::string checkpoint_folder::begin(long step) {
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

GPIPE_COLD GPIPE_INLINE void checkpoint_folder::replace(const std::string& part, const std::string& name) {
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

GPIPE_COLD GPIPE_INLINE void checkpoint_folder::commit(long step) {
  const std::string part = part_path(step), name = named(step);
  sync_folder(*files_, part);
  if (exists(name)) return replace(part, name);
  rename(part, name);
  sync_folder(*files_, path_);
}

GPIPE_COLD GPIPE_INLINE void checkpoint_folder::abandon(long step) noexcept {
  try {
    if (locked_ && exists(part_path(step))) remove_part(part_path(step));  // else it is another saver's
  } catch (...) {                                                          // the next save removes it
  }
}

GPIPE_COLD GPIPE_INLINE void checkpoint_folder::keep_newest(long step, int keep) {
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

GPIPE_COLD GPIPE_INLINE found_checkpoint newest_checkpoint(const std::string& folder, detail::file_operations& files) {
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
