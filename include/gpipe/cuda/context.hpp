#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <gpipe/cuda/kernels/attention.hpp>
#include <gpipe/cuda/kernels/attention_bf16.hpp>
#include <gpipe/cuda/kernels/convolution.hpp>
#include <gpipe/cuda/kernels/convolution_bf16.hpp>
#include <gpipe/cuda/kernels/convolution_tiles.hpp>
#include <gpipe/cuda/kernels/elements.hpp>
#include <gpipe/cuda/kernels/for_each.hpp>
#include <gpipe/cuda/kernels/gemm.hpp>
#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/neighbours.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/kernels/row_additions.hpp>
#include <gpipe/cuda/kernels/transposing.hpp>
#include <gpipe/cuda/long_rows.hpp>
#include <gpipe/cuda/memory/staging.hpp>
#include <gpipe/cuda/stream/graph.hpp>
#include <gpipe/cuda/stream/marker.hpp>
#include <gpipe/cuda/stream/nvtx_range.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/device/host/team.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::cuda {

/// Runs the kernels of a stage's layers on a stream of a GPU. Operations execute in the order in which they were
/// enqueued, and only `finish` waits and reports a failure; after a failure nothing more is enqueued. It has the
/// operations of host::basic_context, so that layers compile for both. Each operation gives the same bits for the same
/// values on one kind of GPU: sums have a fixed order, which may differ from the host's. For one thread at a time.
class context {
 public:
  GPIPE_COLD explicit context(int gpu = 0) : stream_(gpu), gemm_(stream_), staging_(stream_) {}

  int gpu() const { return stream_.gpu(); }
  /// The stream on which operations are enqueued.
  const cuda::stream& queue() const { return stream_; }

  /// Lets products of floats round their factors to TF32 (plan_options::tf32). Call before the first is prepared.
  void allow_tf32() { gemm_.allow_tf32(); }

  /// f(i) for i in [0, n), in any order.
  template <class F>
  void each(std::ptrdiff_t n, F f) const {
    enqueue([&] { for_each(stream_, n, f); });
  }

  /// The same for a function of elements (see gpipe::detail::each_element): its arrays are read and written 16 bytes at
  /// a time if they are aligned.
  template <class F>
  void each_element(std::ptrdiff_t n, F f) const {
    if (n <= 0) return;
    const std::ptrdiff_t vectors = detail::whole_vectors(n, f);
    const std::ptrdiff_t work = vectors > 0 ? vectors : n;  // the remainder is shorter than a vector
    enqueue([&] {
      cuda::launch(stream_, detail::blocks((work + team::threads - 1) / team::threads), dim3(team::threads),
                   detail::over_elements<F>, n, vectors, f);
    });
  }

  /// rule(i) for i in [0, n), in any order: the rule of an optimizer with this number of moments (see update_operands).
  /// Aligned arrays are read and written 16 bytes at a time.
  template <int Moments, class Rule>
  void each_parameter(std::ptrdiff_t n, Rule rule) const {
    if (n <= 0) return;
    const std::ptrdiff_t vectors = detail::whole_vectors_of_parameters<Moments>(n, rule);
    const std::ptrdiff_t work = vectors > 0 ? vectors : n;  // the remainder is shorter than a vector
    enqueue([&] {
      cuda::launch(stream_, detail::blocks((work + team::threads - 1) / team::threads), dim3(team::threads),
                   detail::over_parameters<Moments, Rule>, n, vectors, rule);
    });
  }

  /// f(row, team) for row in [0, count), in any order. The team is a warp_team if f.row_width() is small.
  template <class F>
  void rows(std::ptrdiff_t count, F f) const {
    constexpr std::ptrdiff_t narrow = warp_team::max_width;
    if (count <= 0) return;
    if constexpr (detail::has_constant_width<F>) {
      if constexpr (F::row_width() <= narrow) narrow_rows(count, f);
      else wide_rows(count, f);
    } else if constexpr (detail::has_width<F>) {
      f.row_width() <= narrow ? narrow_rows(count, f) : wide_rows(count, f);
    } else {
      wide_rows(count, f);
    }
  }

  /// sums[j] += f(0, j) + f(1, j) + ... + f(rows - 1, j) for j in [0, n). Up to 64 rows are added in this order, more
  /// in the blocks of host::detail::column_sums; the sums of blocks are added in parts (see column_parts).
  template <class F, class T>
  void columns(std::ptrdiff_t rows, std::ptrdiff_t n, F f, T* sums) const {
    add_columns(rows, n, detail::column_sum<F, T>{f, sums});
  }
  /// Both sums.
  template <class F, class G, class T>
  void columns(std::ptrdiff_t rows, std::ptrdiff_t n, F f, T* sums, G g, T* g_sums) const {
    add_columns(rows, n, detail::column_sum<F, T>{f, sums}, detail::column_sum<G, T>{g, g_sums});
  }

  /// *result = f(0) + ... + f(n - 1), in double; `result` is in GPU memory.
  template <class F>
  void sum(std::ptrdiff_t n, F f, double* result) const {
    using detail::number_at, detail::over_parts;
    const auto parts =
        (std::clamp)((n + detail::sum_chunk - 1) / detail::sum_chunk, std::ptrdiff_t{1}, detail::sum_blocks);
    double* const partials = parts > 1 ? gemm_.scratch<double>() : result;
    enqueue([&] {
      cuda::launch(stream_, detail::blocks(parts), dim3(team::threads), over_parts<F>, n, f, partials);
      if (parts > 1)
        cuda::launch(stream_, dim3(1), dim3(team::threads), over_parts<number_at>, parts, number_at{partials}, result);
    });
  }
  /// The same for the rows of a loss.
  template <class F>
  void sum_rows(std::ptrdiff_t n, F f, double* result) const {
    sum(n, f, result);
  }

  /// The source is in memory of any GPU that this one can access.
  template <class T>
  void copy(std::ptrdiff_t n, const T* source, T* target) const {
    enqueue([&] {
      check(cudaMemcpyAsync(target, source, sizeof(T) * static_cast<std::size_t>(n), cudaMemcpyDefault, stream_.get()),
            "cudaMemcpyAsync");
    });
  }
  template <class T>
  void fill(std::ptrdiff_t n, T value, T* array) const {
    if constexpr (sizeof(T) == 1)
      enqueue([&] {
        check(cudaMemsetAsync(array, static_cast<int>(value), static_cast<std::size_t>(n), stream_.get()),
              "cudaMemsetAsync");
      });
    else each(n, detail::set_to<T>{array, value});
  }
  /// target[i] += source[i]
  template <class T>
  void add(std::ptrdiff_t n, const T* source, T* target) const {
    each_element(n, host::detail::add_to<T>{source, target});
  }

  /// sums[targets[r]][j] += scale * rows[r][j] for each row r in [0, count), in this order, and j in [0, width).
  template <class T>
  void add_rows(std::ptrdiff_t count, std::ptrdiff_t width, const std::int32_t* targets, const T* rows,
                compute_type<T> scale, compute_type<T>* sums) const {
    constexpr auto most = static_cast<std::ptrdiff_t>(gemm::scratch_bytes / (2 * sizeof(detail::row_key)));
    for (std::ptrdiff_t first = 0; first < count; first += most)
      enqueue([&] {
        add_some_rows((std::min)(most, count - first), width, targets + first, rows + first * width, scale, sums);
      });
  }

  /// Packs the k x n matrix B for `multiply` into packed_size(k, n) elements, rounded if they are bf16. On a GPU these
  /// are rows, each padded with zeros to whole panels. The source is row-major, with `stride` elements from row to row;
  /// if transposed, the source is B^T, n x k.
  template <class T>
  void pack(int k, int n, const compute_type<T>* source, int stride, bool transposed, T* packed) const {
    if (!transposed)
      return each(static_cast<std::ptrdiff_t>(packed_size(k, n)),
                  detail::packing<T>{source, packed, n, product::padded(n), stride});
    constexpr dim3 threads(detail::transposing_tile, detail::transposing_lines);
    if (const std::ptrdiff_t tiles = detail::transposing_tiles(k, product::padded(n)); tiles > 0)
      enqueue([&] {
        cuda::launch(stream_, detail::blocks(tiles), threads, detail::transpose<T>, k, n, product::padded(n), source,
                     stride, packed);
      });
  }

  /// C[rows x n] = A[rows x k] * B[k x n], or C += A * B; all row-major, B packed. Sums of bf16 are in float, and each
  /// is rounded once, when it is complete.
  template <class T>
  void multiply(int rows, int n, int k, const T* a, const T* packed_b, T* c, bool accumulate) const {
    enqueue([&] {
      if constexpr (std::is_same_v<T, bf16>)
        if (long_rows::multiplies(n, k, accumulate))
          return long_rows(stream_, gemm_).multiply(rows, n, k, a, packed_b, c, accumulate);
      gemm_.run(product::by_packed<T>(rows, n, k), a, packed_b, c, accumulate);
    });
  }
  /// C = row + A * B: `row`, n elements, is added to each row of the product. If C is bf16, `row` is rounded first.
  template <class T>
  void multiply_plus(int rows, int n, int k, const T* a, const T* packed_b, const compute_type<T>* row, T* c) const {
    plus(product::by_packed<T>(rows, n, k), a, packed_b, row, c);
  }
  /// The same with a rounded row, in one kernel (see gpipe::detail::round_bias).
  void multiply_plus(int rows, int n, int k, const bf16* a, const bf16* packed_b, const bf16* row, bf16* c) const {
    plus(product::by_packed<bf16>(rows, n, k), a, packed_b, row, c);
  }
  /// H = row + A * B and Z = GELU(H) by its approximation, in one kernel if cuBLASLt has one; otherwise does nothing
  /// and returns false. Z is computed from the values of H before they are rounded.
  bool multiply_plus_gelu(int rows, int n, int k, const bf16* a, const bf16* packed_b, const bf16* row, bf16* h,
                          bf16* z) const {
    return with_gelu(epilogue::gelu_and_bias, rows, n, k, a, packed_b, row, h, z);
  }
  /// C = (A * B) GELU'(H), element by element, in one kernel; otherwise does nothing and returns false.
  bool multiply_gelu_gradient(int rows, int n, int k, const bf16* a, const bf16* packed_b, const bf16* h,
                              bf16* c) const {
    return with_gelu(epilogue::gelu_gradient, rows, n, k, a, packed_b, nullptr, const_cast<bf16*>(h), c);
  }
  /// C[m x n] += A[rows x m]^T * B[rows x n]; all row-major.
  template <class T>
  void multiply_transposed(int m, int n, int rows, const T* a, const T* b, compute_type<T>* c) const {
    // Part of a parameter, such as the keys of cross_attention, can begin at an address from which cuBLASLt's kernels
    // cannot load 16 bytes at a time. The gradient of a 1 x 1 convolution's weight is the same product.
    if (product::alignment_of(c) < gemm::vector_bytes)
      return convolve_backward_weight({.samples = rows,
                                       .in_channels = m,
                                       .in_height = 1,
                                       .in_width = 1,
                                       .out_channels = n,
                                       .kernel_height = 1,
                                       .kernel_width = 1},
                                      a, b, c);
    enqueue([&] {
      if constexpr (std::is_same_v<T, bf16>)
        if (long_rows::multiplies_transposed(m, rows))
          return long_rows(stream_, gemm_).multiply_transposed(m, n, rows, a, b, c);
      gemm_.run(product::of_transposed<T>(m, n, rows), a, b, c, true);
    });
  }

  /// Layers call these at construction for each product that they will run, with up to `max_rows` rows, so that a step
  /// makes nothing.
  template <class T>
  void prepare_multiply(int max_rows, int n, int k) const {
    prepare(product::by_packed<T>(max_rows, n, k), epilogue::bias);
    if constexpr (std::is_same_v<T, bf16>) long_rows(stream_, gemm_).prepare_multiply(max_rows, n, k);
  }
  /// For a product with GELU, n columns wide, and the one with GELU's gradient. A has k columns.
  void prepare_gelu(int max_rows, int n, int k) const {
    if (!allows_gelu(n)) return;
    product p = product::by_packed<bf16>(max_rows, n, k);
    p.fused_step = epilogue::gelu_and_bias, gemm_.prepare(p);
    p.fused_step = epilogue::gelu_gradient, gemm_.prepare(p);
  }
  template <class T>
  void prepare_multiply_transposed(int m, int n, int max_rows) const {
    product p = product::of_transposed<T>(m, n, max_rows);
    prepare(p, epilogue::bias_gradient);
    p.d_alignment = product::alignment_of(sizeof(compute_type<T>) * static_cast<std::size_t>(n));  // for a part of C
    if (gemm::vector_bytes <= p.d_alignment && p.d_alignment < product::full_alignment) prepare(p, epilogue::none);
    if constexpr (std::is_same_v<T, bf16>) long_rows(stream_, gemm_).prepare_multiply_transposed(m, n, max_rows);
  }

  /// o = softmax(scale q k^T) v of every head, and log_sums[sample][head][query] = log sum_j e^s_ij (see
  /// attention_shape). `lengths` has the number of valid keys per sample; null: all. A query without visible keys gives
  /// o = 0 and log sum -infinity. bf16 runs on tensor cores, unless the program's code for this GPU is for an
  /// architecture before sm_80, or a block's shared memory is too small; then, and in other types, in plain tiles.
  template <class T>
  void attention(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths, T* o,
                 compute_type<T>* log_sums) const {
    const auto count = detail::attention_work::count(shape.samples, shape.heads, shape.queries);
    if (count == 0) return;
    enqueue([&] {
      const bool done = on_tensor_cores<T>(shape, [&]<int Width>() {
        using tiles = detail::tiles_of_queries<Width>;
        const bool aligned = detail::rows_are_aligned(shape, {q, k, v, o});
        return launch_tensor_tiles<tiles, 1>(shape, shape.heads, shape.queries, detail::attend_bf16<Width>, shape, q, k,
                                             v, lengths, o, log_sums, aligned);
      });
      if (!done)
        launch_tiles(count * detail::tile_worker<T>::parts_of(shape.width), detail::attend<T>, shape, q, k, v, lengths,
                     o, log_sums);
    });
  }
  /// The gradients of q, k and v from d_o; o and log_sums are the results of `attention`. Overwrites d_q, d_k and d_v.
  /// The heads that share a key head are added in ascending order.
  template <class T>
  void attention_backward(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                          const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_q, T* d_k, T* d_v) const {
    using detail::attention_work, detail::differentiate_keys, detail::differentiate_queries;
    const auto of_queries = attention_work::count(shape.samples, shape.heads, shape.queries);
    const auto of_keys = attention_work::count(shape.samples, shape.key_heads, shape.keys);
    if (of_queries == 0) return;
    enqueue([&] {
      const bool aligned = detail::rows_are_aligned(shape, {q, k, v, o, d_o, d_q, d_k, d_v});
      const bool done = on_tensor_cores<T>(shape, [&]<int Width>() {
        return launch_tensor_tiles<detail::tiles_of_queries<Width>, 2>(
                   shape, shape.heads, shape.queries, detail::differentiate_queries_bf16<Width>, shape, q, k, v,
                   lengths, o, log_sums, d_o, d_q, aligned) &&
               launch_tensor_tiles<detail::tiles_of_keys<Width>, 2>(shape, shape.key_heads, shape.keys,
                                                                    detail::differentiate_keys_bf16<Width>, shape, q, k,
                                                                    v, lengths, o, log_sums, d_o, d_k, d_v, aligned);
      });
      if (done) return;
      const int parts = detail::tile_worker<T>::parts_of(shape.width);
      launch_tiles(of_queries * parts, differentiate_queries<T>, shape, q, k, v, lengths, o, log_sums, d_o, d_q);
      launch_tiles(of_keys * parts, differentiate_keys<T>, shape, q, k, v, lengths, o, log_sums, d_o, d_k, d_v);
    });
  }

  /// The convolutions of host::basic_context (see convolution_shape). `packed` is the result of `pack_convolution`. A
  /// 1 x 1 convolution that reads each pixel once is a product by cuBLASLt, if it has one. Others of bf16 run on tensor
  /// cores if fits_tensor_cores holds and the arrays are aligned to 16 bytes, unless the program's code for this GPU is
  /// for an architecture before sm_80.
  template <class T>
  void convolve(const convolution_shape& shape, const T* x, const T* packed, const compute_type<T>* bias, T* y) const {
    constexpr bool rounds = !std::is_same_v<T, compute_type<T>>;  // cuBLASLt would round the bias, too
    const product p = by_channels<T>(shape, shape.in_channels, shape.out_channels);
    if (!(rounds && bias != nullptr) && offers(shape, p, x, packed, y)) {
      if (bias != nullptr) return plus(p, x, packed, bias, y);
      return enqueue([&] { gemm_.run(p, x, packed, y); });
    }
    if (convolved_on_tensor_cores<false>(shape, shape.out_channels, x, packed, bias, y)) return;
    const int height = shape.out_height(), width = shape.out_width();
    if (detail::fills_tiles(shape))
      multiply_tiles(detail::convolution_product<T>{shape, height, width, x, packed, bias, y});
    else
      each(std::ptrdiff_t{shape.samples} * height * width * shape.out_channels,
           detail::convolve<T>{shape, height, width, x, packed, bias, y});
  }
  template <class T>
  void convolve_backward_input(const convolution_shape& shape, const T* dy, const T* packed, T* dx) const {
    const compute_type<T>* none = nullptr;
    if (const product p = by_channels<T>(shape, shape.out_channels, shape.in_channels);
        offers(shape, p, dy, packed, dx))
      return enqueue([&] { gemm_.run(p, dy, packed, dx); });
    if (convolved_on_tensor_cores<true>(shape, shape.in_channels, dy, packed, none, dx)) return;
    const int height = shape.out_height(), width = shape.out_width();
    if (detail::fills_tiles(shape))
      multiply_tiles(detail::convolution_back_product<T>{shape, height, width, dy, packed, dx});
    else
      each(std::ptrdiff_t{shape.samples} * shape.in_height * shape.in_width * shape.in_channels,
           detail::convolve_back<T>{shape, height, width, dy, packed, dx});
  }
  template <class T>
  void convolve_backward_weight(const convolution_shape& shape, const T* x, const T* dy, compute_type<T>* dw) const {
    if (const product p =
            product::of_transposed<T>(shape.in_channels, shape.out_channels, static_cast<int>(pixels_of(shape)));
        product::alignment_of(dw) >= gemm::vector_bytes && offers(shape, p, x, dy, dw))
      return enqueue([&] { gemm_.run(p, x, dy, dw, true); });
    if (weight_on_tensor_cores(shape, x, dy, dw)) return;
    const int height = shape.out_height(), width = shape.out_width();
    const detail::convolution_weight_product<T> whole{shape, height, width, x, dy, dw};
    if (detail::fills_tiles(shape)) add_weight_tiles(whole);
    else
      each(static_cast<std::ptrdiff_t>(shape.weight_size()),
           detail::convolution_weight_gradient<T>{shape, height, width, x, dy, dw});
  }
  template <class T>
  void pack_convolution(const convolution_shape& shape, const compute_type<T>* weight, T* packed) const {
    each(static_cast<std::ptrdiff_t>(shape.weight_size()),
         detail::packing<T>{weight, packed, shape.out_channels, shape.out_channels, shape.out_channels});
  }
  template <class T>
  void pack_convolution_backward(const convolution_shape& shape, const compute_type<T>* weight, T* packed) const {
    each(static_cast<std::ptrdiff_t>(shape.weight_size()), detail::turned_weight<T>{shape, weight, packed});
  }
  template <class T>
  void prepare_convolution(const convolution_shape& shape) const {
    if (!reads_each_pixel_once(shape)) return;
    const product p = by_channels<T>(shape, shape.in_channels, shape.out_channels);
    prepare(p, std::is_same_v<T, compute_type<T>> ? epilogue::bias : epilogue::none);
    prepare(by_channels<T>(shape, shape.out_channels, shape.in_channels), epilogue::none);
    prepare(product::of_transposed<T>(shape.in_channels, shape.out_channels, p.rows), epilogue::none);
  }

  /// A layer calls this at construction for each attention that it will run, with its largest number of samples.
  template <class T>
  GPIPE_COLD void prepare_attention(const attention_shape& shape) const {
    if (shape.width > detail::max_head_width)
      gpipe::detail::throw_error({"the width of an attention's head is ", shape.width},
                                 {"on a GPU choose at most ", detail::max_head_width});
  }

  // Operations that only GPUs have: a weight W {N, K} is read in place, without packing.

  /// C[rows x n] = row + A[rows x k] * W^T.
  template <class T>
  void multiply_by_weight(int rows, int n, int k, const T* a, const T* weight, const T* row, T* c) const {
    plus(product::by_weight<T>(rows, n, k, true), a, weight, row, c);
  }
  /// C[rows x k] = A[rows x n] * W.
  template <class T>
  void multiply_back(int rows, int n, int k, const T* a, const T* weight, T* c) const {
    enqueue([&] { gemm_.run(product::by_weight<T>(rows, k, n, false), a, weight, c); });
  }
  /// C[m x n] += A[rows x m]^T * B[rows x n], and sums[i] += the i-th column of A: in one kernel if cuBLASLt has one.
  template <class T>
  void multiply_transposed_and_sum(int m, int n, int rows, const T* a, const T* b, compute_type<T>* c,
                                   compute_type<T>* sums) const {
    using number = compute_type<T>;
    product p = product::of_transposed<T>(m, n, rows);
    p.fused_step = epilogue::bias_gradient;
    bool fused = false;
    enqueue([&] {
      fused = gemm_.fits_scratch<number>(m) && gemm_.offers(p, a, b, c);
      if (fused) gemm_.run(p, a, b, c, true, gemm_.scratch<number>());
    });
    if (fused) return add(m, static_cast<const number*>(gemm_.scratch<number>()), sums);
    multiply_transposed(m, n, rows, a, b, c);
    columns(rows, m, detail::entries<T>{a, m}, sums);
  }
  template <class T>
  void prepare_multiply_by_weight(int max_rows, int n, int k) const {
    prepare(product::by_weight<T>(max_rows, n, k, true), epilogue::bias);
  }
  template <class T>
  void prepare_multiply_back(int max_rows, int n, int k) const {
    prepare(product::by_weight<T>(max_rows, k, n, false), epilogue::none);
  }

  // For the runtime.

  void upload(std::ptrdiff_t bytes, const std::byte* source, std::byte* target) const {
    const auto size = static_cast<std::size_t>(bytes);
    enqueue([&] { capture_ ? capture_->up(stream_, size, source, target) : staging_.up(size, source, target); });
  }
  void download(std::ptrdiff_t bytes, const std::byte* source, std::byte* target) const {
    const auto size = static_cast<std::size_t>(bytes);
    enqueue([&] { capture_ ? capture_->down(stream_, size, source, target) : staging_.down(size, source, target); });
  }
  /// The rows, adjacent in the source, are written `stride` bytes apart. Not for a capture.
  void download_rows(int rows, std::ptrdiff_t bytes, const std::byte* source, std::byte* target,
                     std::ptrdiff_t stride) const {
    const auto size = static_cast<std::size_t>(bytes);
    enqueue([&] {
      staging_.down(size * static_cast<std::size_t>(rows), source, target, {size, static_cast<std::size_t>(stride)});
    });
  }
  void mark(marker& point) const {
    enqueue([&] { point.record(stream_); });
  }
  void await(const marker& point) const {
    enqueue([&] { point.make_wait(stream_); });
  }
  void note(moment& time) const {
    enqueue([&] { time.record(stream_); });
  }
  void set_operation(const operation_tag& operation) const {
    operation_ = operation;
    nvtx_range_.begin(operation);
  }

  /// Between `begin` and `end` operations are captured and not executed.
  void begin(graph& captured) const {
    enqueue([&] { captured.begin(stream_); });
    if (!failure_) capture_ = &captured;  // otherwise `finish` drops the failed graph
  }
  void end(graph& captured) const {
    if (failure_) return;  // `finish` drops the graph
    capture_ = nullptr;
    enqueue([&] { captured.end(stream_); });
  }
  void launch(graph& captured) const {
    enqueue([&] { captured.launch(stream_); });
    launched_ = &captured;
  }

  /// Waits until all enqueued work is done. Throws `error` for the first failure, with the operation that was set last
  /// before it was reported.
  GPIPE_COLD void finish() const {
    if (capture_ != nullptr) std::exchange(capture_, nullptr)->drop();
    graph* const launched = std::exchange(launched_, nullptr);
    nvtx_range_.end();
    enqueue([&] { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); });
    if (!failure_) {
      staging_.drain();
      if (launched != nullptr) launched->drain();
      return;
    }
    ignore(cudaStreamSynchronize(stream_.get()));  // nothing is in flight when another context uses the memory
    staging_.drop();
    const error first = *std::exchange(failure_, std::nullopt);
    throw first;
  }

 private:
  // Enqueues work on the GPU, unless it has failed.
  template <class Call>
  void enqueue(Call&& call) const {
    if (failure_) return;
    try {
      use(gpu());
      call();
    } catch (const error& cause) {
      fail(cause.wrong(), cause.remedy());
    } catch (const std::exception& cause) {  // of Thrust
      forget_failure();
      fail(cause.what(), "");
    }
  }
  GPIPE_COLD void fail(std::string wrong, std::string remedy) const {
    failure_.emplace(std::move(wrong), std::move(remedy),
                     gpipe::detail::location{.layer = std::string(operation_.layer),
                                             .layer_index = operation_.layer_index,
                                             .stage = operation_.stage,
                                             .micro_batch = operation_.micro_batch});
  }
  template <class F>
  void wide_rows(std::ptrdiff_t count, const F& f) const {
    enqueue([&] { cuda::launch(stream_, detail::blocks(count), dim3(team::threads), detail::over_rows<F>, count, f); });
  }
  template <class F>
  void narrow_rows(std::ptrdiff_t count, const F& f) const {
    enqueue([&] {
      cuda::launch(stream_, detail::blocks((count + detail::row_warps - 1) / detail::row_warps), dim3(team::threads),
                   detail::over_narrow_rows<F>, count, f);
    });
  }
  template <class... Sum>
  void add_columns(std::ptrdiff_t rows, std::ptrdiff_t n, const Sum&... sums) const {
    using parts = detail::column_parts;
    // Several groups: of a group's columns at most most / (max_group + 1), and twice the sums of whole groups.
    static_assert(2 * sizeof...(Sum) * parts::most / parts::max_group * sizeof(double) <= gemm::scratch_bytes);
    static_assert(parts::most / (parts::max_group + 1) / (team::threads / parts::max_group) < gemm::max_arrivals);
    if (n <= 0) return;
    const detail::column_parts layout(rows, n);
    enqueue([&] {
      cuda::launch<detail::column_parts, double*, unsigned*, Sum...>(
          stream_, detail::blocks(layout.strips() * layout.groups()), dim3(team::threads), detail::over_columns<Sum...>,
          layout, gemm_.scratch<double>(), gemm_.arrivals(), sums...);
    });
  }
  template <class T>
  void add_some_rows(std::ptrdiff_t count, std::ptrdiff_t width, const std::int32_t* targets, const T* rows,
                     compute_type<T> scale, compute_type<T>* sums) const {
    using detail::row_key;
    constexpr int threads = team::threads, warps = threads / team::warp;
    const auto launch_blocks = [&](std::ptrdiff_t blocks, int block_threads, auto* kernel, auto... arguments) {
      cuda::launch(stream_, detail::blocks(blocks), dim3(static_cast<unsigned>(block_threads)), kernel, arguments...);
    };
    const std::ptrdiff_t tiles = (count + threads - 1) / threads,
                         merging = (count + detail::merge_threads - 1) / detail::merge_threads;
    row_key *sorted = gemm_.scratch<row_key>(), *next = sorted + count;
    launch_blocks(tiles, threads, detail::sort_tiles<std::int32_t>, count, targets, sorted);
    for (std::ptrdiff_t run = threads; run < count; run *= detail::merged_runs) {
      launch_blocks(merging, detail::merge_threads, detail::merge_runs<row_key>, count, run,
                    static_cast<const row_key*>(sorted), next);
      std::swap(sorted, next);
    }
    const std::ptrdiff_t strips = (width + detail::added_columns - 1) / detail::added_columns;
    launch_blocks((count * strips + warps - 1) / warps, threads, detail::add_runs<T>, count, width,
                  static_cast<const row_key*>(sorted), rows, scale, sums);
  }
  template <class... Terms>
  void launch_tiles(std::ptrdiff_t count, void (*kernel)(Terms...), std::type_identity_t<Terms>... arguments) const {
    constexpr int lanes = detail::attention_lanes;
    cuda::launch<Terms...>(stream_, detail::blocks(count), dim3(lanes, lanes), kernel, arguments...);
  }
  // Calls call.operator()<Width>(), which returns whether it has launched, if attention of this type and width may run
  // on tensor cores here; otherwise returns false.
  template <class T, class Call>
  bool on_tensor_cores(const attention_shape& shape, Call&& call) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (tensor_memory_ < 0) tensor_memory_ = detail::tensor_memory(gpu());
      if (tensor_memory_ == 0 || shape.width > detail::max_head_width) return false;
      if (shape.width <= 64) return call.template operator()<64>();
      if (shape.width <= 128) return call.template operator()<128>();
      return call.template operator()<256>();
    }
    return false;
  }
  template <class Tiles, int Lefts, class... Terms>
  bool launch_tensor_tiles(const attention_shape& shape, int heads, int rows, void (*kernel)(Terms...),
                           std::type_identity_t<Terms>... arguments) const {
    constexpr int bytes = Tiles::bytes(Lefts), static_bytes = 1 << 10;  // an upper bound of static shared memory
    if (bytes + static_bytes > tensor_memory_) return false;
    const auto count = detail::attention_work::count(shape.samples, heads, rows, Tiles::block_rows) * Tiles::parts;
    cuda::launch_with_shared<Terms...>(stream_, detail::blocks(count), dim3(detail::tensor_threads), bytes, kernel,
                                       arguments...);
    return true;
  }
  // Whether a convolution is the product of a matrix {pixels, channels} and its weight.
  static bool reads_each_pixel_once(const convolution_shape& shape) {
    return shape.groups == 1 && shape.taps() == 1 && shape.stride_height == 1 && shape.stride_width == 1 &&
           shape.padding_height == 0 && shape.padding_width == 0 &&
           pixels_of(shape) <= (std::numeric_limits<int>::max)();
  }
  static std::int64_t pixels_of(const convolution_shape& shape) {
    return std::int64_t{shape.samples} * shape.in_height * shape.in_width;
  }
  template <class T>
  static product by_channels(const convolution_shape& shape, int k, int n) {
    return {.in = library_type<T>,
            .out = library_type<T>,
            .n = n,
            .across = k,
            .b_stride = n,
            .rows = static_cast<int>(pixels_of(shape))};
  }
  bool offers(const convolution_shape& shape, const product& p, const void* a, const void* b, const void* d) const {
    bool offered = false;
    if (reads_each_pixel_once(shape)) enqueue([&] { offered = gemm_.offers(p, a, b, d); });
    return offered;
  }
  // Whether convolutions of this shape, whose arrays begin at these addresses, run on tensor cores.
  template <class T>
  bool on_tensor_cores(const convolution_shape& shape, std::initializer_list<const void*> arrays) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (!detail::fits_tensor_cores(shape) || !detail::all_aligned(arrays)) return false;
      if (!convolves_on_tensor_cores_)
        enqueue([&] { convolves_on_tensor_cores_ = detail::has_tensor_cores(detail::convolve_bf16<false>); });
      return convolves_on_tensor_cores_.value_or(false);
    }
    return false;
  }
  // Launches a convolution, or a gradient of the input, if it runs on tensor cores. Returns whether it does.
  template <bool Back, class T>
  bool convolved_on_tensor_cores(const convolution_shape& shape, int columns, const T* source, const T* weight,
                                 const compute_type<T>* bias, T* target) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (!on_tensor_cores<T>(shape, {source, weight, target})) return false;
      const auto windows = Back ? detail::tensor_windows::back(shape) : detail::tensor_windows::forward(shape);
      const std::ptrdiff_t count = windows.tiles(detail::convolution_pixels) * detail::tiles_across(columns);
      if (count > 0)
        enqueue([&] {
          cuda::launch(stream_, detail::blocks(count), dim3(detail::convolution_bf16_threads),
                       detail::convolve_bf16<Back>, windows, columns, source, weight, bias, target);
        });
      return true;
    }
    return false;
  }
  template <class T>
  bool weight_on_tensor_cores(const convolution_shape& shape, const T* x, const T* dy, compute_type<T>* dw) const {
    if constexpr (std::is_same_v<T, bf16>) {
      if (!on_tensor_cores<T>(shape, {x, dy})) return false;
      const auto windows = detail::tensor_windows::forward(shape);
      const std::ptrdiff_t tiles =
          std::ptrdiff_t{detail::tiles_of_terms(windows.depth)} * detail::tiles_across(shape.out_channels);
      const detail::gradient_parts parts(windows.count, tiles, static_cast<std::ptrdiff_t>(shape.weight_size()),
                                         gemm::scratch_bytes / sizeof(float));
      const bool single = parts.count == 1;
      const std::ptrdiff_t blocks = parts.count * tiles;
      float* const partials = single ? dw : gemm_.scratch<float>();
      if (blocks == 0) return true;
      enqueue([&] {
        cuda::launch(stream_, detail::blocks(blocks), dim3(detail::convolution_bf16_threads),
                     single ? detail::differentiate_weight_bf16<false> : detail::differentiate_weight_bf16<true>,
                     windows, shape.out_channels, parts, x, dy, partials);
      });
      const auto size = static_cast<std::ptrdiff_t>(shape.weight_size());
      if (!single) each(size, detail::add_gradient_parts<float>{parts.count, size, partials, dw});
      return true;
    }
    return false;
  }
  template <class T>
  void add_weight_tiles(const detail::convolution_weight_product<T>& whole) const {
    using number = compute_type<T>;
    const auto size = static_cast<std::ptrdiff_t>(whole.shape.weight_size());
    const detail::gradient_parts parts(whole.depth(), detail::tile_grid(whole).count(), size,
                                       gemm::scratch_bytes / sizeof(number));
    if (parts.count <= 1) return multiply_tiles(whole);
    auto* const partials = gemm_.scratch<number>();
    multiply_tiles(detail::convolution_weight_parts<T>{whole, parts, whole.depth(), partials});
    each(size, detail::add_gradient_parts<number>{parts.count, size, partials, whole.dw});
  }
  template <class Product>
  void multiply_tiles(const Product& matrices) const {
    const detail::tile_grid grid(matrices);
    if (grid.count() > 0)
      enqueue([&] { launch_tiles(grid.count(), detail::multiply_tiles<Product>, matrices, grid, grid.count()); });
  }
  GPIPE_COLD void prepare(product p, epilogue step) const {
    gemm_.prepare(p);
    p.fused_step = step;
    if (step != epilogue::none) gemm_.prepare(p);
  }

  // Row is T, or the type that T rounds.
  template <class T, class Row>
  void plus(product p, const T* a, const T* b, const Row* row, T* c) const {
    product with_bias = p;
    with_bias.fused_step = epilogue::bias;
    bool offered = false;
    enqueue([&] { offered = gemm_.fits_scratch<T>(p.n) && gemm_.offers(with_bias, a, b, c); });
    if (!offered) {
      each(std::ptrdiff_t{p.rows} * p.n, detail::repeat_row<Row, T>{row, c, p.n});
      return enqueue([&] { gemm_.run(p, a, b, c, true); });
    }
    const void* added = row;
    // A row that T rounds, or that is a part of another array, is copied.
    if (!std::is_same_v<T, Row> || product::alignment_of(row) < product::full_alignment) {
      each(p.n, detail::repeat_row<Row, T>{row, gemm_.scratch<T>(), p.n});
      added = gemm_.scratch<T>();
    }
    enqueue([&] { gemm_.run(with_bias, a, b, c, false, const_cast<void*>(added)); });
  }
  // cublasLt.h, EPILOGUE_AUX_LD: the leading dimension of H is a multiple of 8.
  static bool allows_gelu(int n) { return n % 8 == 0; }
  bool with_gelu(epilogue step, int rows, int n, int k, const bf16* a, const bf16* b, const bf16* row, bf16* h,
                 bf16* c) const {
    const auto aligned = [](const void* address) { return product::alignment_of(address) == product::full_alignment; };
    if (!allows_gelu(n) || !aligned(h) || (row != nullptr && !aligned(row))) return false;
    product p = product::by_packed<bf16>(rows, n, k);
    p.fused_step = step;
    bool offered = false;
    enqueue([&] {
      offered = gemm_.offers(p, a, b, c);
      if (offered) gemm_.run(p, a, b, c, false, const_cast<bf16*>(row), h);
    });
    return offered;
  }

  // `mutable`: layers enqueue through a const context.
  cuda::stream stream_;
  mutable gemm gemm_;
  mutable staging staging_;
  mutable graph *capture_ = nullptr, *launched_ = nullptr;
  mutable int tensor_memory_ = -1;                         // bytes for attention; queried at the first one
  mutable std::optional<bool> convolves_on_tensor_cores_;  // queried at the first convolution that fits them
  mutable operation_tag operation_{};
  [[no_unique_address]] mutable nvtx_range nvtx_range_;
  mutable std::optional<error> failure_;
};

}  // namespace gpipe::cuda
