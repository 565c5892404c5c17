#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/checkpoint/header.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE std::uint64_t bytes_of(const safetensors_tensor& tensor, const std::string& file) {
  std::uint64_t bits = 1;
  bool fits = true;
  for (const std::uint64_t extent : tensor.shape) fits = fits && !__builtin_mul_overflow(bits, extent, &bits);
  fits = fits && !__builtin_mul_overflow(bits, std::uint64_t{bits_of(tensor.type)}, &bits);
  if (!fits)
    throw_error({"tensor ", detail::quoted(tensor.name), " has more bits than 64 bits can count"},
                {"write the file anew"}, {.file = file});
  if (bits % 8 != 0)
    throw_error({"tensor ", detail::quoted(tensor.name), " of ", name_of(tensor.type), " does not end at a byte"},
                {"write the file anew"}, {.file = file});
  return bits / 8;
}

GPIPE_COLD GPIPE_INLINE const safetensors_entry* safetensors_header::find(std::string_view name) const {
  const auto position = std::lower_bound(by_name.begin(), by_name.end(), name,
                                         [this](std::uint32_t i, std::string_view n) { return entries[i].name < n; });
  return position != by_name.end() && entries[*position].name == name ? &entries[*position] : nullptr;
}

/// Fills `by_name`; throws if two entries have one name.
GPIPE_COLD GPIPE_INLINE void sort_names(safetensors_header& header, const std::string& file) {
  auto& order = header.by_name;
  order.resize(header.entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  const auto name = [&](std::uint32_t i) -> const std::string& { return header.entries[i].name; };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (name(order[i - 1]) == name(order[i]))
      throw_error({"the file has two tensors ", detail::quoted(name(order[i]))}, {"give each tensor its own name"},
                  {.file = file});
}

/// `{"dtype": ..., "shape": ..., "data_offsets": ...}`; other fields are skipped.
GPIPE_COLD GPIPE_INLINE void read_entry(json_reader& json, safetensors_entry& entry) {
  bool has_type = false, has_shape = false, has_offsets = false;
  const auto once = [&json](bool& had) {
    if (had) json.fail("a field occurs twice");
    had = true;
  };
  std::string text;
  json.object([&](const std::string& key) {
    if (key == "dtype") {
      once(has_type);
      json.string(text);
      const auto type = safetensors_type_named(text);
      if (!type) json.fail("the dtype is unknown");
      entry.type = *type;
    } else if (key == "shape") {
      once(has_shape);
      std::uint64_t extents[max_dimensions];
      std::size_t count = 0;
      json.array([&] {
        if (count == max_dimensions) json.fail("a shape has more than 64 dimensions");
        extents[count++] = json.number();
      });
      entry.shape.assign(extents, extents + count);
    } else if (key == "data_offsets") {
      once(has_offsets);
      std::uint64_t offsets[2]{};
      std::size_t count = 0;
      json.array([&] {
        if (count == 2) json.fail("data_offsets has more than two numbers");
        offsets[count++] = json.number();
      });
      if (count != 2) json.fail("data_offsets has fewer than two numbers");
      entry.begin = offsets[0], entry.end = offsets[1];
    } else {
      json.skip();
    }
  });
  if (!has_type || !has_shape || !has_offsets) json.fail("a tensor needs dtype, shape and data_offsets");
}

/// The first 8 bytes of a file whose header has `length` bytes: the number, in little endian.
GPIPE_COLD inline std::string length_bytes(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> 8 * i & 0xff);
  return bytes;
}

/// Throws if the first 8 bytes of a file are the signature of another format. A signature is also the length of a
/// header: "PK\3\4" is 67,324,752, and each length of 640 + 65,536 k begins with "\x80\2". So call this only for a file
/// that cannot be a safetensors file: its header does not fit into it, or is no JSON object.
GPIPE_COLD inline void refuse_other_format(std::string_view begin, const std::string& file) {
  if (begin == "version ")
    throw_error({"the file is a pointer of git-lfs, and not the file itself"}, {"fetch it: git lfs pull"},
                {.file = file});
  // A pickle: its protocol, and then an operation, all of which are letters, brackets or above 0x7f.
  const bool pickle =
      begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5 && static_cast<unsigned char>(begin[2]) >= '(';
  if (pickle || begin.starts_with("PK\3\4"))
    throw_error({"the file is one of PyTorch's torch.save, whose pickles can run programs"},
                {"write a .safetensors file: safetensors.torch.save_file(torch.load(path), \"model.safetensors\")"},
                {.file = file});
}

// change: the array order in a file; allows no gap between arrays
GPIPE_COLD GPIPE_INLINE safetensors_header parse_header(std::string_view text, std::uint64_t data_bytes,
                                                        const std::string& file) {
  if (const std::size_t first = text.find_first_not_of(" \t\r\n"); first == text.npos || text[first] != '{')
    refuse_other_format(length_bytes(text.size()), file);
  safetensors_header header;
  json_reader json(text, "the header", file);
  bool has_metadata = false;
  json.object([&](const std::string& name) {
    if (name != "__metadata__") {
      header.entries.emplace_back().name = name;
      return read_entry(json, header.entries.back());
    }
    if (has_metadata) json.fail("__metadata__ occurs twice");
    has_metadata = true;
    if (json.is_null()) return;
    json.object([&](const std::string& key) {
      const auto [entry, is_new] = header.metadata.try_emplace(key);
      if (!is_new) json.fail("a key of __metadata__ occurs twice");
      json.string(entry->second);
    });
  });
  json.end();

  std::sort(header.entries.begin(), header.entries.end(), [](const safetensors_entry& a, const safetensors_entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.name < b.name;
  });
  sort_names(header, file);
  std::uint64_t offset = 0;
  for (const safetensors_entry& e : header.entries) {
    if (e.begin != offset || e.end < e.begin)
      throw_error({"tensor ", detail::quoted(e.name), " is at bytes ", e.begin, " to ", e.end,
                   ", but the tensors before end at ", offset},
                  {"write the file anew, its tensors without a hole or an overlap"}, {.file = file});
    if (const std::uint64_t bytes = bytes_of(e, file); bytes != e.bytes())
      throw_error(
          {"tensor ", detail::quoted(e.name), " has ", e.bytes(), " bytes, but its shape and type need ", bytes},
          {"write the file anew"}, {.file = file});
    offset = e.end;
  }
  if (offset != data_bytes)
    throw_error({"the file has ", data_bytes, " bytes behind its header, but its tensors need ", offset},
                {data_bytes < offset ? "the file is cut off: copy or write it anew" : "write the file anew"},
                {.file = file});
  return header;
}

GPIPE_COLD GPIPE_INLINE std::uint64_t header_length(std::span<const std::byte> begin, std::uint64_t file_size,
                                                    const std::string& file) {
  if (file_size < 8 || begin.size() < 8)
    throw_error({"the file has ", file_size, " bytes, which is no safetensors file"}, {"give a whole file"},
                {.file = file});
  std::uint64_t length = 0;
  for (unsigned i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(begin[i]) << 8 * i;
  if (length <= max_header && length <= file_size - 8) return length;
  refuse_other_format({reinterpret_cast<const char*>(begin.data()), 8}, file);
  throw_error({"the file has ", file_size, " bytes, but begins with the length ", length, " of a header"},
              {"give a whole safetensors file"}, {.file = file});
}

// change: the array order in a file
GPIPE_COLD GPIPE_INLINE safetensors_header place_tensors(std::vector<safetensors_tensor> tensors,
                                                         safetensors_metadata metadata, const std::string& file) {
  std::sort(tensors.begin(), tensors.end(), [](const safetensors_tensor& a, const safetensors_tensor& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  safetensors_header header{.metadata = std::move(metadata)};
  std::uint64_t offset = 0;
  for (safetensors_tensor& t : tensors) {
    const auto refuse = [&](const char* why, const char* remedy) {
      throw_error({"tensor ", detail::quoted(t.name), " ", why}, {remedy}, {.file = file});
    };
    if (t.name == "__metadata__") refuse("has the name of the texts of a file", "choose another name");
    if (!is_utf8(t.name)) refuse("has a name that is not UTF-8", "choose another name");
    if (t.shape.size() > max_dimensions) refuse("has more than 64 dimensions", "choose at most 64");
    const std::uint64_t bytes = bytes_of(t, file), begin = offset;
    if (__builtin_add_overflow(offset, bytes, &offset)) refuse("does not fit into a file", "write several files");
    header.entries.push_back({std::move(t), begin, offset});
  }
  sort_names(header, file);
  for (const auto& [key, text] : header.metadata)
    if (!is_utf8(key) || !is_utf8(text))
      throw_error({"text ", detail::quoted(key), " of the metadata is not UTF-8"}, {"choose another text"},
                  {.file = file});
  return header;
}

// change: the array order in a file
GPIPE_COLD GPIPE_INLINE std::string header_bytes(const safetensors_header& header, const std::string& file) {
  std::string bytes(8, '\0');
  const char* before = "{";
  if (!header.metadata.empty()) {
    bytes += "{\"__metadata__\":";
    for (const auto& [key, text] : header.metadata) {
      bytes += before;
      append_json(bytes, key);
      bytes += ':';
      append_json(bytes, text);
      before = ",";
    }
    bytes += '}';
  }
  for (const safetensors_entry& e : header.entries) {
    bytes += before;
    before = ",";
    append_json(bytes, e.name);
    ((bytes += ":{\"dtype\":\"") += name_of(e.type)) += "\",\"shape\":[";
    for (std::size_t d = 0; d < e.shape.size(); ++d) bytes += concat({d == 0 ? "" : ",", e.shape[d]});
    bytes += concat({"],\"data_offsets\":[", e.begin, ",", e.end, "]}"});
  }
  if (*before == '{') bytes += '{';
  bytes += '}';
  bytes.resize((bytes.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = bytes.size() - 8;
  if (length > max_header)
    throw_error({"the header of ", header.entries.size(), " tensors has ", length, " bytes, but the format allows ",
                 max_header},
                {"write several files"}, {.file = file});
  bytes.replace(0, 8, length_bytes(length));
  return bytes;
}

}  // namespace detail

}  // namespace gpipe
