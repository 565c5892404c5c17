#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/window.hpp>

namespace gpipe {

/// Options of `max_pool` and `average_pool`, with PyTorch's names.
struct pool_options {
  height_width stride = 0;  ///< 0: the window's, so that windows do not overlap
  height_width padding = 0;
  bool count_padding = true;  ///< of `average_pool`: a mean counts the padding's zeros (PyTorch's count_include_pad)
};

namespace detail {

constexpr short_name name_of_pool(std::string_view kind, height_width window, const pool_options& options) {
  short_name name;
  name << kind << "<" << window;
  if (options.stride.height > 0) add_option(name, "stride", options.stride, window);
  name << ">";
  return name;
}

/// f(0), f(1), ..., f(N - 1), without a loop: compilers make vectors of a loop around it.
template <int N, int From = 0, class F>
GPIPE_HOST_DEVICE constexpr void unrolled(F&& f) {
  if constexpr (N > 32) {
    for (int i = From; i < N; ++i) f(i);
  } else if constexpr (From < N) {
    f(From);
    unrolled<N, From + 1>(f);
  }
}

/// The promise that a pooling of this input breaks; void if there is none.
template <class Layer, class In, height_width Window, auto Given, class... Position>
struct pool_check {
  using broken_promise = void;  // no feature map: see `on`
};
template <class Layer, floating_map In, height_width Window, auto Given, class... Position>
struct pool_check<Layer, In, Window, Given, Position...> {
  static constexpr pool_options options = options_of<pool_options, Given>();
  static constexpr height_width stride{options.stride.height > 0 ? options.stride.height : Window.height,
                                       options.stride.width > 0 ? options.stride.width : Window.width};
  using down = windows<In::height, Window.height, stride.height, options.padding.height>;
  using across = windows<In::width, Window.width, stride.width, options.padding.width>;
  // As in PyTorch, every window has a pixel of the image.
  static constexpr bool sees(int window, int padding, int step) { return 2 * padding <= window && step >= 0; }
  using broken_promise = first_broken<
      unless<are_options<pool_options, Given>, broken::pool_has_options<Layer, In, false, Position...>>,
      unless<down::fits, broken::window_is_in_the_image<Layer, In, Window.height,
                                                        In::height + 2 * options.padding.height, false, Position...>>,
      unless<across::fits, broken::window_is_in_the_image<Layer, In, Window.width,
                                                          In::width + 2 * options.padding.width, false, Position...>>,
      unless<sees(Window.height, options.padding.height, options.stride.height),
             broken::every_window_sees_a_pixel<Layer, In, Window.height, options.padding.height, options.stride.height,
                                               false, Position...>>,
      unless<sees(Window.width, options.padding.width, options.stride.width),
             broken::every_window_sees_a_pixel<Layer, In, Window.width, options.padding.width, options.stride.width,
                                               false, Position...>>>;
};

/// Windows over an image: which inputs an output sees, and which outputs see an input. Only the window is a constant,
/// so that the compiler makes one vector loop of its pixels.
template <height_width Window>
struct pool_windows {
  int channels, in_height, in_width, out_height, out_width;
  height_width stride, padding;
  bool count_padding;

  /// A row or column of outputs: its first input, and the inputs [begin, end) of its window that are in the image.
  struct span {
    int first, begin, end;
  };
  /// The same for all rows: windows inside the image, and the inputs that the same number of windows see.
  span whole{}, seen{}, evenly_seen{};
  /// A copy with these spans, computed at compile time.
  constexpr pool_windows with_spans() const {
    pool_windows result = *this;
    result.whole = result.whole_windows();
    result.seen = result.fully_seen();
    result.evenly_seen = result.all_evenly_seen();
    return result;
  }

  GPIPE_HOST_DEVICE constexpr std::ptrdiff_t in_size() const { return std::ptrdiff_t{in_height} * in_width * channels; }
  GPIPE_HOST_DEVICE constexpr std::ptrdiff_t out_size() const {
    return std::ptrdiff_t{out_height} * out_width * channels;
  }

  GPIPE_HOST_DEVICE static constexpr span inputs(int t, int extent, int window, int stride, int padding) {
    const int first = t * stride - padding;
    return {first, first < 0 ? 0 : first, first + window < extent ? first + window : extent};
  }
  GPIPE_HOST_DEVICE constexpr span rows(int t) const {
    return inputs(t, in_height, Window.height, stride.height, padding.height);
  }
  GPIPE_HOST_DEVICE constexpr span columns(int u) const {
    return inputs(u, in_width, Window.width, stride.width, padding.width);
  }

  /// The outputs [begin, end) whose windows see input i.
  GPIPE_HOST_DEVICE static constexpr span outputs(int i, int count, int window, int stride, int padding) {
    const int low = i + padding - window + 1, high = (i + padding) / stride + 1;
    return {0, low <= 0 ? 0 : (low + stride - 1) / stride, high < count ? high : count};
  }
  GPIPE_HOST_DEVICE constexpr span rows_that_see(int i) const {
    return outputs(i, out_height, Window.height, stride.height, padding.height);
  }
  /// The same for input column j, from the columns that see j - 1, without a division; for j = 0, from {}.
  GPIPE_HOST_DEVICE constexpr span columns_that_see(int j, span last) const {
    while (last.begin * stride.width - padding.width + Window.width <= j) ++last.begin;
    while (last.end < out_width && last.end * stride.width - padding.width <= j) ++last.end;
    return last;
  }

  // Such pixels, side by side, are one long vector if the stride is 1: pixel u + 1 reads the elements C further on.
  /// The outputs [begin, end) of a row whose windows see no padding to the left and to the right.
  GPIPE_HOST_DEVICE constexpr span whole_windows() const {
    const int limit =
        in_width + padding.width < Window.width ? 0 : (in_width + padding.width - Window.width) / stride.width + 1;
    const int begin = (padding.width + stride.width - 1) / stride.width;
    const int end = limit < out_width ? limit : out_width;
    return {0, begin < end ? begin : end, end};
  }
  /// The number of such outputs whose elements are side by side in the input, too.
  GPIPE_HOST_DEVICE constexpr int joined_pixels() const {
    return stride.width == 1 && whole.end > whole.begin ? whole.end - whole.begin : 1;
  }
  /// With stride 1, the inputs [begin, end) of a row that `Window.width` windows see, each at another place.
  GPIPE_HOST_DEVICE constexpr span fully_seen() const {
    const int begin = Window.width - 1 - padding.width, end = out_width - padding.width;
    if (stride.width != 1 || end <= begin) return {0, 0, 0};
    return {0, begin, end};
  }
  /// The inputs that `Window.width` windows of equal weight see.
  GPIPE_HOST_DEVICE constexpr span all_evenly_seen() const {
    if (count_padding || seen.begin == seen.end) return seen;
    const int begin = whole.begin - padding.width + Window.width - 1, end = whole.end - padding.width;
    return end > begin ? span{0, begin, end} : span{0, 0, 0};
  }
};

/// The output of a pooling, its windows, and its work.
template <class Layer, class In, height_width Window, auto Given>
struct pooled {
  using checked = pool_check<Layer, In, Window, Given>;
  static_assert(accepted<typename checked::broken_promise>);
  using T = typename In::value_type;
  using output = feature_map<T, In::channels, checked::down::count, checked::across::count>;
  static constexpr pool_windows<Window> sizes = pool_windows<Window>{.channels = In::channels,
                                                                     .in_height = In::height,
                                                                     .in_width = In::width,
                                                                     .out_height = output::height,
                                                                     .out_width = output::width,
                                                                     .stride = checked::stride,
                                                                     .padding = checked::options.padding,
                                                                     .count_padding = checked::options.count_padding}
                                                    .with_spans();
  static constexpr std::int64_t seen = static_cast<std::int64_t>(output::size) * Window.height * Window.width;
  static constexpr std::int64_t bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size));
};

}  // namespace detail

}  // namespace gpipe
