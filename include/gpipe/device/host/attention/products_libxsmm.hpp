#pragma once

#include <bit>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/device/host/attention/key_block.hpp>
#include <gpipe/device/host/attention/products_portable.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>

namespace gpipe::host {

/// The products of attention's blocks by libxsmm's kernels, one for each shape. For float; other types use the portable
/// products.
struct libxsmm_products {
  template <class T, attention_product Product>
  struct table : portable_products::table<T, Product> {
    using portable_products::table<T, Product>::table;
  };

  template <attention_product Product>
  class table<float, Product> {
   public:
    explicit table(const attention_strides& of) : of_(of) {}

    /// Compiles the kernels of all pieces of a block of keys.
    GPIPE_COLD void prepare(bool causal) const {
      for (int keys = 1; keys <= key_block::largest; keys *= 2)
        for (int query = 0; query < of_.queries; query += strip)
          if (query == 0 || (causal && keys == strip))
            for (const bool add : {false, true})
              if (!add || Product != attention_product::scores)
                if (find(keys, query, add) == nullptr) no_kernel(keys);
    }

    void operator()(int keys, int query, bool add, const float* a, const float* b, float* c) const {
      using detail::offset;
      // Within a call the kernel of a piece is looked up once.
      auto& kernel = kernels_[std::countr_zero(static_cast<unsigned>(keys))][query / key_block::strip][add];
      if (kernel == nullptr) kernel = find(keys, query, add);
      if constexpr (Product == attention_product::scores) b += query, c += query;
      else if constexpr (Product == attention_product::of_queries) a += query, c += offset(query, of_.c);
      else a += query, b += offset(query, of_.b);
      kernel(b, a, c, nullptr, nullptr, nullptr);  // libxsmm's A is our B
    }

   private:
    static constexpr int strip = Product == attention_product::scores ? key_block::lanes : key_block::strip;

    libxsmm_smmfunction find(int keys, int query, bool add) const {
      const int queries = of_.queries - query;
      constexpr bool transposed = Product == attention_product::of_queries;
      if constexpr (Product == attention_product::scores)
        return libxsmm_kernels::find({keys, queries, of_.width, of_.a, of_.c, add, transposed, of_.b, true});
      else if constexpr (transposed)
        return libxsmm_kernels::find({queries, of_.width, keys, of_.a, of_.c, add, transposed, of_.b, true});
      else return libxsmm_kernels::find({keys, of_.width, queries, of_.a, of_.c, add, transposed, of_.b, true});
    }

    [[noreturn]] GPIPE_COLD void no_kernel(int keys) const {
      gpipe::detail::throw_error({"libxsmm has no kernel for an attention of ", of_.queries, " queries and ", keys,
                                  " keys of width ", of_.width},
                                 {"build without GPIPE_WITH_LIBXSMM on this kind of machine, or, if the address space "
                                  "is limited (",
                                  gpipe::detail::address_space_left(), " bytes left), raise ulimit -v"});
    }

    attention_strides of_;
    mutable libxsmm_smmfunction kernels_[7][key_block::largest / key_block::strip][2] = {};
  };
};

}  // namespace gpipe::host
