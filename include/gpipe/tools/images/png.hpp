#pragma once

#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <gpipe/tools/images/image_format.hpp>

namespace gpipe {

namespace detail {

// Half of the signature is enough: libpng reports an error in the rest, which a copy as text changes.
inline bool is_png(std::span<const std::byte> file) {
  return file.size() >= 4 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 4) == 0;
}

/// Reads one PNG from memory. A failed call of libpng ends by longjmp, so the functions that call it own nothing that
/// has a destructor.
class png_reading {
 public:
  static constexpr const char* name = "PNG";
  static constexpr std::size_t max_expansion = 1032;

  explicit png_reading(std::span<const std::byte> file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) std::strcpy(message_, "out of memory");
  }
  png_reading(const png_reading&) = delete;
  png_reading& operator=(const png_reading&) = delete;
  ~png_reading() { png_destroy_read_struct(&png_, &info_, nullptr); }

  /// Reads the header and selects grey or red, green, blue, of 8 or 16 bits. False: see message().
  bool read_header();
  /// Reads the pixels to rows[0] ... rows[height() - 1].
  bool read_pixels(png_bytep* rows);

  std::uint32_t width() const { return png_get_image_width(png_, info_); }
  std::uint32_t height() const { return png_get_image_height(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }
  int bits() const { return png_get_bit_depth(png_, info_); }
  std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  /// A row's bytes in the file before compression: eight pixels of black and white are one byte there.
  std::size_t packed_row_bytes() const { return packed_row_bytes_; }
  const char* message() const { return message_; }

 private:
  static void fail(png_structp png, png_const_charp message) {
    auto& self = *static_cast<png_reading*>(png_get_error_ptr(png));
    std::strncpy(self.message_, message, sizeof self.message_ - 1);
    png_longjmp(png, 1);
  }
  static void read(png_structp png, png_bytep target, std::size_t bytes) {
    auto& self = *static_cast<png_reading*>(png_get_io_ptr(png));
    if (bytes > self.file_.size() - self.position_) png_error(png, "the file ends too early");
    std::memcpy(target, self.file_.data() + self.position_, bytes);
    self.position_ += bytes;
  }

  std::span<const std::byte> file_;
  std::size_t position_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::size_t packed_row_bytes_ = 0;
  char message_[128]{};
};

inline bool png_reading::read_header() {
  if (info_ == nullptr) return false;
  if (setjmp(png_jmpbuf(png_))) return false;
  png_set_read_fn(png_, this, read);
  png_read_info(png_, info_);
  packed_row_bytes_ = png_get_rowbytes(png_, info_);
  png_set_expand(png_);  // palettes to colours, grey of 1, 2 and 4 bits to 8
  png_set_strip_alpha(png_);
  png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  return true;
}

inline bool png_reading::read_pixels(png_bytep* rows) {
  if (setjmp(png_jmpbuf(png_))) return false;
  png_read_image(png_, rows);
  png_read_end(png_, nullptr);
  return true;
}

}  // namespace detail

/// PNG by libpng: grey, or red, green, blue; of 8 or 16 bits; palettes become colours. Transparency is dropped.
///
///     read_image_folders("flowers", {.formats = {png_format, pnm_format}})
inline constexpr image_format png_format{"PNG", detail::is_png, detail::decode_by<detail::png_reading>};

}  // namespace gpipe
