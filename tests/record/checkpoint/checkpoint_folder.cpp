#include <gpipe/record/checkpoint/checkpoint_folder.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/checkpoints.hpp"
#include "support/sanitized.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

/// One save of a model of two tensors with the value `value`.
struct save {
  long step;
  float value;
  int shards = 1;  // 1: one file
  std::size_t size = 3;
  int keep = 100;
};

void write_set(const std::string& folder, const std::string& stem, const save& from, detail::file_operations& files) {
  const safetensors_source source = [&](const safetensors_entry& e, safetensors_sink& into) {
    const std::vector<float> values(e.elements(), from.value);
    into.write(std::span<const float>(values));
  };
  if (from.shards == 1)
    return detail::write_safetensors_directly(folder + "/" + stem + ".safetensors",
                                              {{"a", safetensors_type::F32, {from.size}}}, {}, source, files);
  safetensors_index index;
  for (int s = 1; s <= from.shards; ++s) {
    const std::string file = detail::shard_name(stem, s, from.shards), name = "a" + std::to_string(s);
    detail::write_safetensors_directly(folder + "/" + file, {{name, safetensors_type::F32, {from.size}}}, {}, source,
                                       files);
    index.file_of[name] = file;
  }
  detail::write_safetensors_index_directly(folder + "/" + stem + ".safetensors.index.json", index, files);
}

void run(const std::string& folder, const save& now, detail::file_operations& files) {
  detail::checkpoint_folder checkpoints(folder, files);
  try {
    const std::string part = checkpoints.begin(now.step);
    write_set(part, "model", now, files);
    write_set(part, "optimizer", now, files);
    checkpoints.commit(now.step);
  } catch (...) {
    checkpoints.abandon(now.step);
    throw;
  }
  checkpoints.keep_newest(now.step, now.keep);
}

/// The value of the newest checkpoint if all its tensors have it; -1 if there is none, -2 if they are mixed.
float value_of(const std::string& path, std::size_t size) {
  float value = -1;
  for (const char* stem : {"model", "optimizer"}) {
    const safetensors_set set = detail::open_set(path, stem, detail::system_files());
    for (const auto& [name, location] : set.tensors()) {
      std::vector<float> values(location.entry->elements());
      if (values.size() != size) return -2;
      location.read(0, std::span(values));
      for (const float x : values) {
        if (value == -1) value = x;
        if (value != x) return -2;
      }
    }
  }
  return value;
}

/// The system, up to one call. That call fails, or the process ends there: then no later call has an effect. After a
/// loss of power what was not synced is lost, too: bytes of files, and names that their folder was not synced with.
struct faulty_files : detail::file_operations {
  enum class fault { none, fails, ends, ends_in_the_call, loses_power };
  fault what = fault::none;
  int at = -1, reason = EIO, count = 0;
  bool can_exchange = true, over = false;
  std::size_t largest = SIZE_MAX;
  std::map<int, int> unsynced{};         // a descriptor, and a copy of it
  std::vector<int> never_synced{};       // copies of descriptors that were closed before
  std::map<int, std::string> folders{};  // of descriptors
  struct change {
    std::string from, to;  // from "": `to` is a new file
    bool exchanges = false;
  };
  std::vector<change> unsynced_names{};

  ~faulty_files() override {
    for (const auto& [file, copy] : unsynced) ::close(copy);
    for (const int copy : never_synced) ::close(copy);
  }

  /// Whether the call has no effect.
  bool stops() {
    if (over) return errno = EIO, true;
    if (what == fault::none || ++count != at) return false;
    errno = reason;
    if (what != fault::fails) over = true;
    if (what != fault::loses_power) return true;
    lose_power();
    return errno = reason, true;
  }
  void lose_power() {
    for (const auto& [file, copy] : unsynced) CHECK(::ftruncate(copy, 0) == 0);
    for (const int copy : never_synced) CHECK(::ftruncate(copy, 0) == 0);
    while (!unsynced_names.empty()) {  // the last first
      const change last = unsynced_names.back();
      unsynced_names.pop_back();
      const char *from = last.from.c_str(), *to = last.to.c_str();
      if (last.from.empty()) {
        file_operations::remove_file(to);
        continue;
      }
      CHECK((last.exchanges ? file_operations::exchange(from, to) : file_operations::rename(to, from)) == 0);
      rename_earlier(last.to, last.from, last.exchanges);
    }
  }
  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  /// The earlier changes inside of a folder go with its name.
  void rename_earlier(const std::string& a, const std::string& b, bool exchanges) {
    const auto moved = [&](std::string& path) {
      if (path.starts_with(a + "/")) path.replace(0, a.size(), b);
      else if (exchanges && path.starts_with(b + "/")) path.replace(0, b.size(), a);
    };
    for (change& it : unsynced_names) moved(it.from), moved(it.to);
  }
  int open(const char* path, int flags, int mode) override {
    if (stops()) return -1;
    const int file = file_operations::open(path, flags, mode);
    if (file >= 0 && (flags & O_CREAT) != 0) {
      unsynced[file] = ::dup(file);
      unsynced_names.push_back({"", path});
    }
    if (file >= 0 && (flags & O_DIRECTORY) != 0) folders[file] = path;
    return file;
  }
  long write(int file, const void* from, std::size_t bytes) override {
    if (!stops()) return file_operations::write(file, from, (std::min)(bytes, largest));
    if (what == fault::ends_in_the_call && count == at && over) (void)!::write(file, from, bytes / 2);
    return errno = reason, -1;
  }
  int sync(int file) override {
    if (stops()) return -1;
    if (const auto found = unsynced.find(file); found != unsynced.end()) ::close(found->second), unsynced.erase(found);
    else std::erase_if(unsynced_names, [&](const change& it) { return folder_of(it.to) == folders[file]; });
    return file_operations::sync(file);
  }
  int close(int file) override {  // a process that ends closes its files
    if (const auto found = unsynced.find(file); found != unsynced.end())
      never_synced.push_back(found->second), unsynced.erase(found);
    if (over || !stops()) return file_operations::close(file);
    file_operations::close(file);
    return errno = reason, -1;
  }
  int rename(const char* from, const char* to) override {
    if (stops()) return -1;
    const int result = file_operations::rename(from, to);
    if (result == 0) rename_earlier(from, to, false), unsynced_names.push_back({from, to, false});
    return result;
  }
  int exchange(const char* a, const char* b) override {
    if (stops()) return -1;
    if (!can_exchange) return errno = EINVAL, -1;
    const int result = file_operations::exchange(a, b);
    if (result == 0) rename_earlier(a, b, true), unsynced_names.push_back({a, b, true});
    return result;
  }
  int make_folder(const char* path) override { return stops() ? -1 : file_operations::make_folder(path); }
  int remove_file(const char* path) override {
    if (stops()) return -1;
    std::erase_if(unsynced_names, [&](const change& it) { return it.to == path; });
    return file_operations::remove_file(path);
  }
  int remove_folder(const char* path) override { return stops() ? -1 : file_operations::remove_folder(path); }
  int list(const char* path, std::vector<std::string>& names) override {
    return stops() ? -1 : file_operations::list(path, names);
  }
};

int parts_in(const std::string& folder) {
  int parts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) parts += entry.path().extension() != "";
  return parts;
}

}  // namespace

TEST_CASE("a save, another, and one at the same step; the newest is found and the last are kept") {
  const memory_folder folder("checkpoints");
  const std::string path = folder / "made";
  auto& files = detail::system_files();
  for (const save& now : {save{10, 1}, save{20, 2, 3}, save{20, 3, 2}, save{9, 4}}) run(path, now, files);
  found_checkpoint found = newest_checkpoint(path);
  CHECK(found.path == path + "/step-00000020");
  CHECK(found.step == 20);
  CHECK(found.skipped.empty());
  CHECK(value_of(found.path, 3) == 3);
  CHECK(parts_in(path) == 0);
  put(path + "/step-abc", "not ours");
  std::filesystem::create_directory(path + "/step-00000001x");
  run(path + "/", save{123456789, 5, 1, 3, 2}, files);
  CHECK(detail::checkpoint_folder(path).list().size() == 2);  // 20 and 123456789
  CHECK(newest_checkpoint(path + "/").step == 123456789);
  run(path, save{15, 6, 1, 3, 1}, files);  // a training that went back: later steps stay
  CHECK(detail::checkpoint_folder(path).list().size() == 3);
  CHECK(std::filesystem::exists(path + "/step-abc"));
}

TEST_CASE("what is not whole is skipped, with its reason") {
  const memory_folder folder("broken");
  auto& files = detail::system_files();
  const auto fresh = [&] { run(folder.path, save{2, 2, 2, 100}, files); };
  run(folder.path, save{1, 1}, files);
  const std::string two = folder / "step-00000002", shard = two + "/model-00002-of-00002.safetensors";
  const auto skipped = [&](const char* why) {
    const found_checkpoint found = newest_checkpoint(folder.path);
    CHECK(found.step == 1);
    REQUIRE(found.skipped.size() == 1);
    CAPTURE(found.skipped[0]);
    CHECK(found.skipped[0].starts_with("step-00000002: "));
    CHECK(found.skipped[0].find(why) != std::string::npos);
  };
  fresh(), std::filesystem::remove(shard), skipped("No such file");
  fresh(), std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1), skipped("cut off");
  fresh(), std::filesystem::resize_file(shard, 0), skipped("0 bytes");
  fresh();
  std::string bytes = content(shard);
  bytes[12] = '\x01';
  put(shard, bytes), skipped("the header");
  fresh(), std::filesystem::remove(two + "/optimizer.safetensors.index.json"), skipped("optimizer.safetensors");
  fresh(), std::filesystem::remove_all(two), std::filesystem::create_directory(two), skipped("No such file");
  fresh();
  CHECK(newest_checkpoint(folder.path).step == 2);
  const memory_folder empty("empty");
  CHECK(newest_checkpoint(empty.path).path == "");
  refuses([&] { newest_checkpoint(empty / "none"); }, "No such file");
  put(empty / "file", "");
  refuses([&] { newest_checkpoint(empty / "file"); }, "Not a directory");
}

TEST_CASE("the new checkpoint is read where the old one of the same step still has its other name") {
  const memory_folder folder("both");
  run(folder.path, save{7, 2}, detail::system_files());
  std::filesystem::rename(folder / "step-00000007", folder / "step-00000007.old");
  CHECK(value_of(newest_checkpoint(folder.path).path, 3) == 2);
  const memory_folder other("new");
  run(other.path, save{7, 3}, detail::system_files());
  std::filesystem::rename(other / "step-00000007", folder / "step-00000007");
  CHECK(value_of(newest_checkpoint(folder.path).path, 3) == 3);
  run(folder.path, save{8, 4}, detail::system_files());  // removes the old one
  CHECK(parts_in(folder.path) == 0);
  CHECK(value_of(folder / "step-00000007", 3) == 3);
}

TEST_CASE("a checkpoint that is deleted while it is opened gives way to the newer one") {
  const memory_folder folder("moving");
  struct moving_files : detail::file_operations {
    std::string folder;
    long step = 1, last = 1;
    int open(const char* path, int flags, int mode) override {
      const std::string name = path;
      if (name.find(detail::checkpoint_folder::name_of_step(step) + "/optimizer") != std::string::npos && step < last) {
        ++step;
        run(folder, save{step, static_cast<float>(step), 1, 3, 1}, detail::system_files());
      }
      return file_operations::open(path, flags, mode);
    }
  } files;
  files.folder = folder.path;
  files.last = 5;
  run(folder.path, save{1, 1}, detail::system_files());
  const found_checkpoint found = newest_checkpoint(folder.path, files);
  CHECK(found.step == 5);
  CHECK(found.skipped.empty());
  files.last = 1000;  // a folder that never stands still
  CHECK(newest_checkpoint(folder.path, files).skipped.size() == 1);
}

TEST_CASE("a folder in a checkpoint is deleted with it, and a rest that cannot be deleted prevents no save") {
  const memory_folder folder("nested");
  auto& files = detail::system_files();
  for (long step = 1; step < 4; ++step) {
    run(folder.path, save{step, static_cast<float>(step), 1, 3, 1}, files);
    std::filesystem::create_directories(folder / detail::checkpoint_folder::name_of_step(step) + "/logs/deep");
    put(folder / detail::checkpoint_folder::name_of_step(step) + "/logs/deep/a", "");
  }
  run(folder.path, save{3, 4}, files);  // in place of the one before
  CHECK(value_of(newest_checkpoint(folder.path).path, 3) == 4);
  CHECK(parts_in(folder.path) == 0);
  CHECK(detail::checkpoint_folder(folder.path).list().size() == 1);

  struct protected_files : detail::file_operations {
    int remove_file(const char* path) override {
      if (!std::string(path).ends_with("mine")) return file_operations::remove_file(path);
      return errno = EACCES, -1;
    }
  } some;
  std::filesystem::create_directory(folder / "step-00000002.part");
  put(folder / "step-00000002.part/mine", "");
  run(folder.path, save{5, 5}, some);
  CHECK(newest_checkpoint(folder.path).step == 5);
  CHECK(std::filesystem::exists(folder / "step-00000002.part/mine"));
  refuses([&] { run(folder.path, save{2, 5}, some); }, "Permission denied");
}

TEST_CASE("a second saver is refused while the first one saves") {
  const memory_folder folder("savers");
  auto& files = detail::system_files();
  {
    detail::checkpoint_folder first(folder.path);
    const std::string part = first.begin(1);
    write_set(part, "model", save{1, 1}, files);
    refuses([&] { run(folder.path, save{2, 2}, files); }, "another training is saving");
    refuses([&] { run(folder.path, save{1, 2}, files); }, "another training is saving");
    write_set(part, "optimizer", save{1, 1}, files);
    first.commit(1);
    CHECK(value_of(newest_checkpoint(folder.path).path, 3) == 1);
  }
  run(folder.path, save{2, 2}, files);
  CHECK(newest_checkpoint(folder.path).step == 2);

  struct no_locks : detail::file_operations {
    int lock(int) override { return errno = ENOLCK, -1; }
  } without;
  run(folder.path, save{3, 3}, without);
  CHECK(newest_checkpoint(folder.path).step == 3);
}

TEST_CASE("a folder that cannot be written, and a file where a folder is expected") {
  const memory_folder folder("unwritable");
  auto& files = detail::system_files();
  put(folder / "file", "");
  refuses([&] { run(folder / "file", save{1, 1}, files); }, "Not a directory");
  refuses([&] { run(folder / "none/deep", save{1, 1}, files); }, "No such file");
  put(folder / "step-00000001", "a file");
  refuses([&] { run(folder.path, save{1, 1}, files); }, "no folder");
  CHECK(content(folder / "step-00000001") == "a file");
  refuses([&] { run(folder.path, save{-1, 1}, files); }, "step is -1");
  refuses([&] { run(folder.path, save{2, 1, 1, 3, 0}, files); }, "keep is 0");
  if (::geteuid() != 0) {
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    refuses([&] { run(folder.path, save{3, 1}, files); }, "Permission denied");
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  }
}

TEST_CASE("law: wherever a save fails or its process ends, the old or the new checkpoint is there and loads") {
  const memory_folder folder("law");
  using fault = faulty_files::fault;
  int points = 0, old_ones = 0, new_ones = 0;
  for (const bool can_exchange : {true, false})
    for (const fault what : {fault::fails, fault::ends, fault::ends_in_the_call, fault::loses_power})
      for (const int shards : {1, 3})
        for (const std::size_t size : {std::size_t{5}, std::size_t{1'100'000}})
          for (const long step : {7L, 9L})  // the same step again, or the next with one deleted
            for (int at = 1;; ++at) {
              // Files of several blocks: the calls that write the first one.
              if (size > 5 && (shards == 3 || laws::sanitized || at > 6)) break;
              std::filesystem::remove_all(folder / "c");
              run(folder / "c", save{5, 1, 2, size}, detail::system_files());
              run(folder / "c", save{7, 2, 2, size}, detail::system_files());
              faulty_files files;
              files.what = what, files.at = at, files.can_exchange = can_exchange;
              files.reason = at % 2 == 0 ? ENOSPC : EIO;
              const std::string message = complaint([&] { run(folder / "c", save{step, 3, shards, size, 2}, files); });
              const std::string point = detail::concat({"fault ", static_cast<int>(what), " at ", at, " of step ", step,
                                                        ", ", shards, " shards, exchange ", int{can_exchange}});
              CAPTURE(point);
              CAPTURE(message);
              if (files.count < at && what == fault::loses_power) files.lose_power();  // behind the last call
              const found_checkpoint found = newest_checkpoint(folder / "c");
              REQUIRE(found.skipped.empty());
              REQUIRE(found.path != "");
              const float value = value_of(found.path, size);
              REQUIRE((value == 2 || value == 3));
              ++points, ++(value == 2 ? old_ones : new_ones);
              if (message == "") REQUIRE(value == 3);
              // The next save goes on from there, and leaves nothing behind.
              run(folder / "c", save{11, 4, 1, size, 1}, detail::system_files());
              REQUIRE(parts_in(folder / "c") == 0);
              REQUIRE(detail::checkpoint_folder(folder / "c").list().size() == 1);
              if (files.count < at) break;  // it was the save without a fault
            }
  MESSAGE(points << " points: " << old_ones << " old, " << new_ones << " new");
  CHECK(points >= 500);
  CHECK(old_ones > 100);
  CHECK(new_ones > 100);
}

TEST_CASE("law: a save behind one that left the old checkpoint under its other name may fail, too") {
  const memory_folder folder("twice");
  using fault = faulty_files::fault;
  int points = 0;
  // The first process ends between the two renames of a commit without exchange.
  for (const fault what : {fault::fails, fault::ends, fault::loses_power})
    for (const long step : {7L, 9L})
      for (int at = 1;; ++at) {
        std::filesystem::remove_all(folder / "c");
        run(folder / "c", save{5, 1}, detail::system_files());
        run(folder / "c", save{7, 2}, detail::system_files());
        std::filesystem::rename(folder / "c/step-00000007", folder / "c/step-00000007.old");
        faulty_files files;
        files.what = what, files.at = at, files.can_exchange = false;
        const std::string message = complaint([&] { run(folder / "c", save{step, 3}, files); });
        CAPTURE(static_cast<int>(what));
        CAPTURE(step);
        CAPTURE(at);
        const float value = value_of(newest_checkpoint(folder / "c").path, 3);
        REQUIRE((value == 2 || value == 3));
        if (message == "") REQUIRE(value == 3);
        ++points;
        if (files.count < at) break;
      }
  CHECK(points > 100);
}

TEST_CASE("a process that is killed in a call leaves the old or the new checkpoint") {
  struct killed_files : detail::file_operations {
    int left = 0;
    void call() const {
      if (left == 0) ::kill(::getpid(), SIGKILL);
    }
    long write(int file, const void* from, std::size_t bytes) override {
      return --left, call(), file_operations::write(file, from, bytes);
    }
    int sync(int file) override { return --left, call(), file_operations::sync(file); }
    int rename(const char* from, const char* to) override { return --left, call(), file_operations::rename(from, to); }
    int exchange(const char* a, const char* b) override { return --left, call(), file_operations::exchange(a, b); }
    int remove_file(const char* path) override { return --left, call(), file_operations::remove_file(path); }
  };
  const memory_folder folder("killed");
  run(folder.path, save{7, 2, 2}, detail::system_files());
  float before = 2;
  for (int at = 1;; ++at) {
    const pid_t child = ::fork();
    if (child == 0) {
      killed_files files;
      files.left = at;
      run(folder.path, save{7, before + 1, 2}, files);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    const float value = value_of(newest_checkpoint(folder.path).path, 3);
    CAPTURE(at);
    REQUIRE((value == before || value == before + 1));
    before = value;
    if (WIFEXITED(status)) {
      CHECK(at > 15);
      break;
    }
  }
}

TEST_CASE("short writes change nothing") {
  const memory_folder folder("short");
  faulty_files files;
  files.largest = 7;
  run(folder.path, save{1, 1, 2, 50}, files);
  CHECK(value_of(newest_checkpoint(folder.path).path, 50) == 1);
}
