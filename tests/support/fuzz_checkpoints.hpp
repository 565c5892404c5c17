#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "support/checkpoints.hpp"

// Mutated headers of safetensors files, and indexes. Each is refused by an error of the library, or what was read is
// checked in another way.

namespace fuzz {

struct tally {
  long files = 0, accepted = 0, malformed = 0;
  std::string first_malformed{};
};

/// A sequence of numbers that is the same everywhere: splitmix64.
struct numbers {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
};

inline constexpr std::array<std::string_view, 5> headers{
    R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}}  )",
    R"({"\u00e4\ud83d\ude00":{"dtype":"BF16","shape":[],"data_offsets":[0,2],"x":[1.5e3,{"y":null}]}})",
    R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},"c":{"dtype":"U8","shape":[0,7],"data_offsets":[1,1]}})",
    R"({})",
    R"( {"a":{"data_offsets":[0,8],"shape":[1],"dtype":"I64"},"b":{"data_offsets":[8,16],"shape":[1],"dtype":"C64"}} )"};
inline constexpr std::array<std::uint64_t, 5> data_bytes{36, 2, 1, 0, 16};

inline constexpr std::array<std::string_view, 2> indexes{
    "{\n  \"metadata\": {\n    \"total_size\": 36\n  },\n  \"weight_map\": {\n    \"b\": \"m-1.safetensors\",\n    "
    "\"w\": "
    "\"m-2.safetensors\"\n  }\n}\n",
    R"({"weight_map":{"a":"b","\u0061\n":"..b"},"metadata":{},"x":[true,false,-0.5]})"};

// clang-format off
inline constexpr std::string_view words[] = {
    "\"", "\\", "{", "}", "[", "]", ":", ",", "0", "1", "-", "e", ".", "null", "true", " ", "\n", "\\u0000",
    "\\ud800", "\xff", "\xc3", "18446744073709551615", "4294967296", "\"a\"", "\"shape\"", "\"dtype\"",
    "\"__metadata__\"", "../", "\"data_offsets\":[0,0]", "[[[[[[[["};
// clang-format on

/// One to four changes of bytes, words, and pieces that are doubled, moved or left out.
inline std::string mutated(std::string text, numbers& random) {
  for (std::size_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::size_t at = random.below(text.size() + 1),
                      length = random.below(1 + (std::min)(text.size() - at, std::size_t{40}));
    switch (random.below(7)) {
      case 0:
        text.insert(at, words[random.below(std::size(words))]);
        break;
      case 1:
        text.replace(at, random.below(1 + (std::min)(text.size() - at, std::size_t{4})),
                     words[random.below(std::size(words))]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(random.below(text.size() + 1), text.substr(at, length));
        break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(random.next());
        break;
      case 5:
        if (at < text.size()) text[at] = static_cast<char>('0' + random.below(10));
        break;
      default:
        text.resize(random.below(8) == 0 ? at : text.size());
    }
  }
  return text;
}

__extension__ using wide = unsigned __int128;

/// Whether what was read is a file: names once, ranges that tile all bytes, sizes that fit; and written again it reads
/// as the same.
inline bool is_sound(const gpipe::detail::safetensors_header& header, std::uint64_t bytes) {
  std::set<std::string> names;
  std::uint64_t at = 0;
  std::vector<gpipe::safetensors_tensor> tensors;
  for (const gpipe::safetensors_entry& e : header.entries) {
    wide bits = gpipe::detail::bits_of(e.type);
    for (const std::uint64_t extent : e.shape)
      bits = extent == 0 ? 0 : bits * extent;  // the bytes are few: no overflow
    if (!names.insert(e.name).second || e.begin != at || e.end < e.begin || bits != wide{e.bytes()} * 8) return false;
    if (header.find(e.name) != &e) return false;
    at = e.end;
    tensors.push_back(e);
  }
  if (at != bytes) return false;
  const auto placed = gpipe::detail::place_tensors(tensors, header.metadata, "f");
  const std::string written = gpipe::detail::header_bytes(placed, "f");
  const auto again = gpipe::detail::parse_header(std::string_view(written).substr(8), bytes, "f");
  if (again.entries.size() != header.entries.size() || again.metadata != header.metadata) return false;
  for (const gpipe::safetensors_entry& e : header.entries) {
    const gpipe::safetensors_entry* same = again.find(e.name);
    if (!same || same->type != e.type || same->shape != e.shape || same->bytes() != e.bytes()) return false;
  }
  return gpipe::detail::header_bytes(again, "f") == written;
}

inline bool is_sound(const gpipe::safetensors_index& index) {
  for (const auto& [name, file] : index.file_of)
    if (file.empty() || file[0] == '/' || file.find('/') != std::string::npos || file == "..") return false;
  const std::string written = gpipe::detail::index_text(index, "f");
  const auto again = gpipe::detail::parse_index(written, "f");
  return again.file_of == index.file_of && again.total_size == index.total_size;
}

/// `count` mutated files, from `seed` on.
inline tally run(long count, std::uint64_t seed) {
  tally found;
  numbers random{seed};
  for (; found.files < count; ++found.files) {
    const std::size_t which = random.below(headers.size() + indexes.size());
    bool sound = true, accepted = true;
    std::string text;
    try {
      if (which < headers.size()) {
        text = std::string(8, '\0') + mutated(std::string(headers[which]), random);
        std::uint64_t length = text.size() - 8, bytes = data_bytes[which];
        if (random.below(16) == 0) length = random.below(2) == 0 ? random.next() : random.below(300);
        if (random.below(16) == 0) bytes = random.below(40);
        std::memcpy(text.data(), &length, 8);
        if (random.below(32) == 0) text.resize(random.below(text.size()));
        const std::uint64_t size = text.size() + bytes;
        const auto header = checkpoints::parsed(text, size);
        sound = is_sound(header, size - 8 - length);
      } else {
        text = mutated(std::string(indexes[which - headers.size()]), random);
        sound = is_sound(gpipe::detail::parse_index(text, "f"));
      }
    } catch (const gpipe::error&) {
      accepted = false;
    }
    found.accepted += accepted;
    if (sound) continue;
    if (found.malformed++ == 0) found.first_malformed = text;
  }
  return found;
}

}  // namespace fuzz
