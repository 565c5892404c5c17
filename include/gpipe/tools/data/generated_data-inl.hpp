#pragma once

#include <memory>

#include <gpipe/tools/data/generated_data.hpp>

namespace gpipe {

namespace detail {

struct calling_filler final : batch_filler {
  explicit calling_filler(const generated_data::fill_function& call) : call_(call) {}
  void fill(const batch_request& wanted) override { call_(wanted); }
  const generated_data::fill_function& call_;
};

}  // namespace detail

GPIPE_INLINE std::unique_ptr<data_stream> generated_data::open(const batch_order& order) const {
  return std::make_unique<detail::prefetched_stream>(samples_, fields_, shuffle_, order,
                                                     std::make_unique<detail::calling_filler>(fill_));
}

}  // namespace gpipe
