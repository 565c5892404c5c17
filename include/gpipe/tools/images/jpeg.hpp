#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>

#include <jpeglib.h>  // after <cstdio>, whose FILE it needs

#include <gpipe/tools/images/image_format.hpp>

namespace gpipe {

namespace detail {

inline bool is_jpeg(std::span<const std::byte> file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} && file[2] == std::byte{0xff};
}

/// Reads one JPEG from memory. A failed call of libjpeg ends by longjmp, so the functions that call it own nothing that
/// has a destructor. A warning of libjpeg, such as for a file that ends too early, is a failure, too: libjpeg would
/// continue with grey.
class jpeg_reading {
 public:
  static constexpr const char* name = "JPEG";
  static constexpr std::size_t max_expansion = 1024;  // a block of 8 x 8 pixels takes some bits

  explicit jpeg_reading(std::span<const std::byte> file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = fail;
    errors_.emit_message = warn;
  }
  jpeg_reading(const jpeg_reading&) = delete;
  jpeg_reading& operator=(const jpeg_reading&) = delete;
  ~jpeg_reading() { jpeg_destroy_decompress(&jpeg_); }

  /// Reads the header, and selects grey or red, green, blue. False: see message().
  bool read_header();
  /// Reads the pixels to rows[0] ... rows[height() - 1].
  bool read_pixels(JSAMPROW* rows);

  std::size_t width() const { return jpeg_.image_width; }
  std::size_t height() const { return jpeg_.image_height; }
  int channels() const { return jpeg_.out_color_space == JCS_GRAYSCALE ? 1 : 3; }
  int bits() const { return 8; }
  std::size_t row_bytes() const { return width() * static_cast<std::size_t>(channels()); }
  std::size_t packed_row_bytes() const { return width(); }
  const char* message() const { return message_; }

 private:
  static void fail(j_common_ptr jpeg) {
    auto& self = *static_cast<jpeg_reading*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, self.message_);
    std::longjmp(self.back_, 1);
  }
  static void warn(j_common_ptr jpeg, int level) {
    if (level < 0) fail(jpeg);  // others are traces
  }

  std::span<const std::byte> file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf back_{};
  char message_[JMSG_LENGTH_MAX]{};
};

inline bool jpeg_reading::read_header() {
  if (setjmp(back_)) return false;
  jpeg_create_decompress(&jpeg_);
  jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.data()), static_cast<unsigned long>(file_.size()));
  jpeg_read_header(&jpeg_, TRUE);
  jpeg_.out_color_space = jpeg_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

inline bool jpeg_reading::read_pixels(JSAMPROW* rows) {
  if (setjmp(back_)) return false;
  jpeg_start_decompress(&jpeg_);
  while (jpeg_.output_scanline < jpeg_.output_height)
    jpeg_read_scanlines(&jpeg_, rows + jpeg_.output_scanline, jpeg_.output_height - jpeg_.output_scanline);
  jpeg_finish_decompress(&jpeg_);
  return true;
}

}  // namespace detail

/// JPEG by libjpeg, such as libjpeg-turbo: grey, or red, green, blue, of 8 bits. The orientation in a camera's metadata
/// is not applied. Files of four colours (CMYK) are refused.
///
///     read_image_folders("flowers", {.channels = 3, .formats = {jpeg_format, pnm_format}, .height = 64, .width = 64})
inline constexpr image_format jpeg_format{"JPEG", detail::is_jpeg, detail::decode_by<detail::jpeg_reading>};

}  // namespace gpipe
