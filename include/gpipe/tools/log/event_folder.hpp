#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/tools/log/log_file.hpp>

// The bytes of a TensorBoard event file: records of TFRecord, each with an `Event` of protocol buffers.
//
//     record    length (8)   masked CRC of it (4)   event   masked CRC of the event (4)        all little-endian
//
//     event     1: wall_time (double)   2: step (varint)   3: file_version (text)   5: summary
//     summary   1: value, repeated
//     value     1: tag (text)   2: simple_value (float)

namespace gpipe {

namespace detail {

/// CRC-32C (Castagnoli), bit by bit: records are short.
GPIPE_COLD inline std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82f63b78U & (0 - (crc & 1)));
  }
  return ~crc;
}

/// A CRC of a text that holds a CRC itself is weak, so TFRecord stores it rotated, plus a constant.
GPIPE_COLD inline std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

template <class Word>
void append_little_endian(std::string& text, Word word) {
  for (std::size_t i = 0; i < sizeof word; ++i) text += static_cast<char>(word >> 8 * i & 0xff);
}

GPIPE_COLD inline void append_varint(std::string& text, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) text += static_cast<char>(number | 0x80);
  text += static_cast<char>(number);
}

/// Appends a field of protocol buffers: a text or a message (wire type 2).
GPIPE_COLD inline void append_field(std::string& text, unsigned field, std::string_view content) {
  append_varint(text, field << 3 | 2);
  append_varint(text, content.size());
  text += content;
}

/// The event with its frame.
GPIPE_COLD inline std::string framed(std::string_view event) {
  std::string record;
  append_little_endian(record, std::uint64_t{event.size()});
  append_little_endian(record, masked_crc32c(record));
  record += event;
  append_little_endian(record, masked_crc32c(event));
  return record;
}

GPIPE_COLD inline std::string event_at(double seconds) {
  std::string event;
  append_varint(event, 1 << 3 | 1);
  append_little_endian(event, std::bit_cast<std::uint64_t>(seconds));
  return event;
}

/// The first record of a file.
GPIPE_COLD inline std::string version_record(double seconds) {
  std::string event = event_at(seconds);
  append_field(event, 3, "brain.Event:2");
  return framed(event);
}

/// The record of a step, without missing numbers.
GPIPE_COLD inline std::string event_record(double seconds, std::int64_t step, std::span<const log_value> values) {
  std::string event = event_at(seconds), summary;
  append_varint(event, 2 << 3 | 0);
  append_varint(event, static_cast<std::uint64_t>(step));
  for (const log_value& v : values) {
    if (v.value != v.value) continue;
    std::string value;
    append_field(value, 1, v.tag);
    append_varint(value, 2 << 3 | 5);
    append_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(v.value)));
    append_field(summary, 1, value);
  }
  append_field(event, 5, summary);
  return framed(event);
}

}  // namespace detail

/// The numbers of a training for TensorBoard: `tensorboard --logdir FOLDER`. Each object writes a new file into the
/// folder, so a resumed training continues its curves. The folder is made if it does not exist.
///
///     event_folder events("runs/1");
///     fit(training, data, {.epochs = 10}, events);
///
/// A write that fails (a full disk) ends the log, with one line on the standard error, but not the training.
class event_folder {
 public:
  /// Throws `error` if the folder cannot be written.
  explicit event_folder(const std::string& folder);

  /// Call it after every step, or give the folder to `fit`.
  void operator()(const fit_progress& progress);

  /// Whether a write has failed.
  bool ended() const { return out_.ended(); }
  /// The path of the file.
  const std::string& file() const { return out_.path(); }

 private:
  static std::string new_file(const std::string& folder);

  detail::log_output out_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/log/event_folder-inl.hpp>
#endif
