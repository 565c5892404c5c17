#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/device/host/gemm/product_block.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::host {

enum class convolution_pass : std::uint8_t { forward, backward_input, backward_weight };

// change: a convolution option
/// The products of one pass over one sample, one group and one strip of channels. Each is a sum over taps:
///
///     C[n][m] (+)= sum over taps of B_tap[n][k] A_tap[k][m]
///
///     pass              n             k             m                  A              B       C
///     forward           pixels of y   channels of x channels of y      packed weight  x       y
///     backward_input    pixels of x   channels of y channels of x      packed weight  dy      dx
///     backward_weight   channels of x pixels of y   channels of y      dy             x       dw, which it adds to
///
/// A strip is `strip` channels m; the last may be narrower. Pixels that see the same taps are computed together, so no
/// padded copy is made. Offsets count elements from the first one of the sample, the strip and the group; offsets of
/// taps count bytes, as libxsmm needs them.
///
/// Small images share a call, so that a weight is read once for several samples. Forward and backward_input then have
/// the rows n of one sample after the other's. In backward_weight a tap is a row of pixels, and the taps of one sample
/// come after the other's.
struct convolution_plan {
  static constexpr int max_pixels = 448;  ///< of a call of backward_weight

  struct product {
    int n, k;                          ///< n of one sample
    int a_stride, b_stride, c_stride;  ///< elements from row to row: of A's k, of B's n (of k, if transposed), of C's n
    std::ptrdiff_t a, b, c;            ///< offsets of the first tap's operands
    int first_tap, taps;               ///< 0 taps: C is 0
  };
  std::vector<product> products;
  std::vector<unsigned long long> a_taps, b_taps;  ///< in bytes
  int together = 1;  ///< the number of samples that share a call, at most; a power of two but in backward_weight

  product_taps taps_of(const product& listed) const {
    return {a_taps.data() + listed.first_tap, b_taps.data() + listed.first_tap, listed.taps};
  }
};

/// The packed copies of x and dy from which a weight's gradient is computed. Rows of x a power of two apart share few
/// lines of the first-level cache, and no prefetcher follows them from page to page.
///
/// A chunk is some rows of one sample's dy, or small samples whole. Its x is packed in panels of `panel` channels, and
/// its dy one strip at a time:
///
///     panel     [sample][row of x][pixel][channel of the panel]
///     strip     [sample][row of dy][pixel][channel of the strip]
///
/// A kernel of one tap reads only every `step`-th pixel of x, and only these are packed.
struct packed_chunks {
  static constexpr int panel = 32, pixels = 256;  ///< channels; of dy in a chunk, at most
  static constexpr int panels_bytes = 256 << 10;  ///< on the stack
  struct chunk {
    int row, in_row, in_rows;  ///< the first row of dy, the first of x, and the number of packed rows of x
    int first, end;            ///< products
  };
  std::vector<chunk> chunks;  ///< of a sample; none: it is computed without copies
  int together = 1;           ///< the number of samples that share a chunk, at most
  int rows = 0;               ///< of dy in a chunk, but the last
  int out_width = 0, in_width = 0, step_down = 1, step_across = 1;
};

namespace detail {

/// One direction of a pass. Output index t is at out_first + t out_step of its array, and reads index
/// t in_step + offset for each tap (kernel index, offset), if it is in [0, in_extent).
struct convolution_axis {
  struct tap {
    int kernel, offset;
  };
  int count, out_first, out_step, in_step, in_extent;
  std::vector<tap> taps;

  bool sees(const tap& candidate, int t) const {
    const int position = t * in_step + candidate.offset;
    return 0 <= position && position < in_extent;
  }
};

/// Neighbouring outputs that see the same taps.
struct convolution_span {
  int first, end;
  std::vector<convolution_axis::tap> taps;
};

std::vector<convolution_span> spans_of(const convolution_axis& axis);

/// The products of a strip of `strip` channels, whose taps are offsets in elements of that number of bytes.
convolution_plan plan_convolution(const convolution_shape& shape, convolution_pass pass, int strip, int element_bytes);

/// The products of a panel of n channels and a strip of m: C is the weight's gradient, and A and B are packed. Taps of
/// one sample follow the other's. The chunks are the same for all n and m.
convolution_plan plan_packed(const convolution_shape& shape, packed_chunks& chunks, int n, int m, int element_bytes);
packed_chunks chunks_of(const convolution_shape& shape, int strip, int element_bytes);

}  // namespace detail

}  // namespace gpipe::host

#if !GPIPE_COMPILED
#include <gpipe/device/host/convolution/convolution_plan-inl.hpp>
#endif
