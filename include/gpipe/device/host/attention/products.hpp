#pragma once

#include <bit>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/gemm/product_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

#if GPIPE_WITH_LIBXSMM
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>
#endif

namespace gpipe::host {

/// The products of attention's blocks; all matrices are row-major, and P has a row for each key:
///
///     scores      P[keys x queries]    = A[keys x width] * B[width x queries]
///     of_queries  C[queries x width] (+)= P[keys x queries]^T * B[keys x width]
///     of_keys     C[keys x width]    (+)= P[keys x queries] * B[queries x width]
enum class attention_product { scores, of_queries, of_keys };

/// The strides of a product C (+)= A * B, in elements from row to row, and the block's extents.
struct attention_strides {
  int queries, width, a, b, c;
};

/// The products of pieces of a block of keys. `Kernels` computes one by its shape, a function without arguments; pieces
/// are numbered, so that the kernel of each is looked up once.
template <class T, attention_product Product, class Kernels>
class attention_products {
 public:
  explicit attention_products(const attention_strides& strides) : strides_(strides) {}

  /// Prepares the kernels of all pieces of a block of keys.
  GPIPE_COLD void prepare(bool causal) const {
    for (int keys = 1; keys <= key_block::largest; keys *= 2)
      for (int query = 0; query < strides_.queries; query += strip)
        if (query == 0 || (causal && keys == strip))
          for (const bool add : {false, true})
            if (!add || Product != attention_product::scores) Kernels::template prepare<whole>(shape(keys, query, add));
  }

  /// The product with `keys` keys and the queries from `query` on. The matrices begin at query 0.
  void operator()(int keys, int query, bool add, const T* a, const T* b, T* c) const {
    if constexpr (Product == attention_product::scores) b += query, c += query;
    else if constexpr (transposed) a += query, c += detail::offset(query, strides_.c);
    else a += query, b += detail::offset(query, strides_.b);
    const int piece = std::countr_zero(static_cast<unsigned>(keys)) * pieces_of_keys + query / key_block::strip;
    kernels_.template run<transposed, whole>(
        2 * piece + add, [&] { return shape(keys, query, add); }, a, b, c);
  }

 private:
  static constexpr int pieces_of_keys = key_block::largest / key_block::strip;
  static constexpr int strip = Product == attention_product::scores ? key_block::lanes : key_block::strip;
  static constexpr bool transposed = Product == attention_product::of_queries;
  static constexpr bool whole = Product == attention_product::scores;  // columns are a multiple of a vector

  block_shape shape(int keys, int query, bool add) const {
    const int queries = strides_.queries - query, width = strides_.width;
    return {transposed ? queries : keys,
            Product == attention_product::scores ? queries : width,
            Product == attention_product::scores ? width
            : transposed                         ? keys
                                                 : queries,
            strides_.a,
            strides_.c,
            add,
            transposed,
            strides_.b,
            true};
  }

  attention_strides strides_;
  [[no_unique_address]] Kernels kernels_;
};

/// Products in plain C++ (see product_block).
struct portable_products {
  struct kernels {
    template <bool Whole>
    static void prepare(const block_shape&) {}
    template <bool Transposed, bool Whole, class Shape, class T>
    void run(int /*piece*/, Shape shape, const T* a, const T* b, T* c) const {
      product_block::multiply<Transposed>(shape(), a, b, c);
    }
  };
  template <class T, attention_product Product>
  using table = attention_products<T, Product, kernels>;
};

#if GPIPE_WITH_LIBXSMM
/// Products by libxsmm's kernels, one for each shape. For float; other types, and shapes for which libxsmm has no
/// kernel, use the portable products.
struct libxsmm_products {
  class kernels {
   public:
    template <bool Whole>
    GPIPE_COLD static void prepare(const block_shape& shape) {
      find<Whole>(shape);
    }
    template <bool Transposed, bool Whole, class Shape>
    void run(int piece, Shape shape, const float* a, const float* b, float* c) const {
      auto& kernel = found_[piece];
      if (!kernel) kernel = find<Whole>(shape());
      if (!kernel) return product_block::multiply<Transposed>(shape(), a, b, c);
      kernel(a, b, c, nullptr);
      if (const int columns = shape().columns, last = narrow<Whole>(columns); last > 0) {
        block_shape edge = shape();
        edge.columns = last;
        product_block::multiply<Transposed>(edge, a, b + columns - last, c + columns - last);
      }
    }

   private:
    // With AVX-512, libxsmm computes 64 columns at once, and would add the products of one last vector in another
    // order.
    template <bool Whole>
    static int narrow(int columns) {
      const int last = columns % 64;
      return detail::has_masks && !Whole && columns > 64 && last <= 16 ? last : 0;
    }
    template <bool Whole>
    static libxsmm_product find(block_shape shape) {
      shape.columns -= narrow<Whole>(shape.columns);
      return libxsmm_kernels::find(shape);
    }

    static constexpr int pieces = 7 * key_block::largest / key_block::strip * 2;
    mutable libxsmm_product found_[pieces] = {};
  };
  template <class T, attention_product Product>
  using table =
      attention_products<T, Product, std::conditional_t<std::is_same_v<T, float>, kernels, portable_products::kernels>>;
};
#endif

}  // namespace gpipe::host
