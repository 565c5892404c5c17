#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/attention.hpp>
#include <gpipe/cuda/kernels/elements.hpp>
#include <gpipe/cuda/kernels/gemm.hpp>
#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/neighbours.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/kernels/row_additions.hpp>
#include <gpipe/cuda/kernels/team.hpp>
#include <gpipe/cuda/work_queue.hpp>
#include <gpipe/device/host/team.hpp>

namespace gpipe::cuda {

/// A context's loops over elements and rows, and its sums.
class loops : public work_queue {
 public:
  using work_queue::work_queue;

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

  // change: an element type; of tokens
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

 protected:
  // Launches blocks of 16 x 16 threads.
  template <class... Terms>
  void launch_tiles(std::ptrdiff_t count, void (*kernel)(Terms...), std::type_identity_t<Terms>... arguments) const {
    constexpr int lanes = detail::attention_lanes;
    cuda::launch<Terms...>(stream_, detail::blocks(count), dim3(lanes, lanes), kernel, arguments...);
  }

 private:
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
};

}  // namespace gpipe::cuda
