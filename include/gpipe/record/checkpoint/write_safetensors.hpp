#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/file_operations.hpp>
#include <gpipe/record/checkpoint/header.hpp>

namespace gpipe {

/// Takes the bytes of a tensor, in as many pieces as its writer likes.
class safetensors_sink {
 public:
  void write(std::span<const std::byte> bytes) { append(bytes.data(), bytes.size()); }
  template <class T>
  void write(std::span<const T> elements) {
    write(std::as_bytes(elements));
  }

  // The library's part.
  safetensors_sink(detail::open_file& file, std::uint64_t bytes_of_file);
  void append(const void* from, std::size_t bytes);
  void flush();
  std::uint64_t written() const { return written_; }

 private:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  detail::open_file* file_;
  std::vector<char> block_{};  // pieces that wait for more
  std::uint64_t written_ = 0;
};

/// Writes the bytes of one tensor. It is called for each tensor, in the order of the file.
using safetensors_source = std::function<void(const safetensors_entry& tensor, safetensors_sink& into)>;

/// Writes a safetensors file. Its bytes depend on the arguments alone: they are those of the format's reference. The
/// bytes go to `.NAME.part` in the same folder, reach the disk, and then take the name: whatever fails, `path` is the
/// old file or the new one.
void write_safetensors(const std::string& path, std::vector<safetensors_tensor> tensors, safetensors_metadata metadata,
                       const safetensors_source& source, detail::file_operations& files = detail::system_files());

namespace detail {

/// The same under its name at once, for a folder that gets its own name later; the bytes are on the disk afterwards.
void write_safetensors_directly(const std::string& path, std::vector<safetensors_tensor> tensors,
                                safetensors_metadata metadata, const safetensors_source& source,
                                file_operations& files);

/// Calls `write(part)`, which writes a file of that path and makes it durable; then it takes the place of `path`.
template <class Write>
void replace_file(const std::string& path, file_operations& files, Write&& write);

/// The file that `path` names, behind links, and the path under which its successor is written.
struct replaced_path {
  std::string target, part, folder;
};
replaced_path path_to_replace(const std::string& path, file_operations& files);
void complete_replacement(const replaced_path& paths, file_operations& files);

template <class Write>
void replace_file(const std::string& path, file_operations& files, Write&& write) {
  const replaced_path paths = path_to_replace(path, files);
  try {
    write(paths.part);
    complete_replacement(paths, files);
  } catch (...) {
    files.remove_file(paths.part.c_str());
    throw;
  }
}

}  // namespace detail

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE safetensors_sink::safetensors_sink(detail::open_file& file, std::uint64_t bytes_of_file)
    : file_(&file) {
  block_.reserve(static_cast<std::size_t>((std::min)(std::uint64_t{block_bytes}, bytes_of_file)));
}

GPIPE_COLD GPIPE_INLINE void safetensors_sink::append(const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  written_ += bytes;
  while (bytes > 0) {
    if (bytes >= block_bytes) {  // a big piece is not copied
      flush();
      return file_->write(at, bytes);
    }
    const std::size_t count = (std::min)(bytes, block_bytes - block_.size());
    block_.insert(block_.end(), at, at + count);
    at += count, bytes -= count;
    if (block_.size() == block_bytes) flush();
  }
}

GPIPE_COLD GPIPE_INLINE void safetensors_sink::flush() {
  if (!block_.empty()) file_->write(block_.data(), block_.size());
  block_.clear();
}

namespace detail {

GPIPE_COLD GPIPE_INLINE void write_safetensors_directly(const std::string& path,
                                                        std::vector<safetensors_tensor> tensors,
                                                        safetensors_metadata metadata, const safetensors_source& source,
                                                        file_operations& files) {
  const safetensors_header header = place_tensors(std::move(tensors), std::move(metadata), path);
  const std::string begin = header_bytes(header, path);
  open_file file(files, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  safetensors_sink sink(file, begin.size() + (header.entries.empty() ? 0 : header.entries.back().end));
  sink.append(begin.data(), begin.size());
  for (const safetensors_entry& e : header.entries) {
    if (e.bytes() > 0) source(e, sink);
    if (const std::uint64_t end = begin.size() + e.end; sink.written() != end)
      throw_error({"tensor ", detail::quoted(e.name), " has ", e.bytes(), " bytes, but its source wrote ",
                   sink.written() - (begin.size() + e.begin)},
                  {"write each tensor whole"}, {.file = path});
  }
  sink.flush();
  file.finish();
}

GPIPE_COLD GPIPE_INLINE replaced_path path_to_replace(const std::string& path, file_operations& files) {
  namespace fs = std::filesystem;
  using kind = file_operations::kind;
  std::error_code unknown;
  fs::path target = path;
  if (files.kind_of(path.c_str()) == kind::other) target = fs::weakly_canonical(path, unknown);  // a link stays a link
  const kind before = files.kind_of(target.c_str());
  if (target.filename().empty() || before == kind::folder || before == kind::other)
    throw_error({"the path ", detail::quoted(path), " is no file that can be replaced"}, {"choose the path of a file"},
                {.file = path});
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  return {target.string(), (folder / ("." + target.filename().string() + ".part")).string(), folder.string()};
}

GPIPE_COLD GPIPE_INLINE void complete_replacement(const replaced_path& paths, file_operations& files) {
  if (files.rename(paths.part.c_str(), paths.target.c_str()) != 0)
    throw_file_error("giving the file its name", paths.target);
  sync_folder(files, paths.folder);
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE void write_safetensors(const std::string& path, std::vector<safetensors_tensor> tensors,
                                               safetensors_metadata metadata, const safetensors_source& source,
                                               detail::file_operations& files) {
  detail::replace_file(path, files, [&](const std::string& part) {
    detail::write_safetensors_directly(part, std::move(tensors), std::move(metadata), source, files);
  });
}
#endif

}  // namespace gpipe
