#pragma once

#include <cstddef>
#include <span>

#include <gpipe/layer.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/runtime/replicas/replica.hpp>

// Gradients whose sum over replicas reveals its order.

namespace laws {

using namespace gpipe;
using namespace gpipe::detail;

/// In ascending order the first two cancel and the rest stays; in any other order the rest is lost.
inline float found_by(int replica, std::size_t i) {
  const float large = 1e9F + static_cast<float>(i % 7) * 1e8F;
  return replica == 0 ? large : replica == 1 ? -large : static_cast<float>(replica) + static_cast<float>(i % 1000);
}
inline float sum_of(int replicas, std::size_t i) {
  float sum = found_by(0, i);
  for (int r = 1; r < replicas; ++r) sum += found_by(r, i);
  return sum;
}

inline std::span<float> gradients(const bound_stage& of) {
  return {reinterpret_cast<float*>(of.gradients()), of.flat_bytes() / sizeof(float)};
}
inline void fill(const bound_stage& of, int replica) {
  const auto all = gradients(of);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = found_by(replica, i);
}
/// The number of elements, from `first` on, that differ from the sum.
inline int wrong_sums(const bound_stage& of, int replicas, std::size_t first = 0) {
  const auto all = gradients(of);
  int wrong = 0;
  for (std::size_t i = first; i < all.size(); ++i) wrong += all[i] != sum_of(replicas, i);
  return wrong;
}
inline int wrong_sums_of_share(const bound_stage& of, int replicas) {
  const auto all = gradients(of);
  int wrong = 0;
  for (auto i = static_cast<std::size_t>(of.share().begin) / sizeof(float);
       i < static_cast<std::size_t>(of.share().end()) / sizeof(float); ++i)
    wrong += all[i] != sum_of(replicas, i);
  return wrong;
}
inline int not_zero(const bound_stage& of) {
  int wrong = 0;
  for (const float x : gradients(of)) wrong += x != 0;
  return wrong;
}

}  // namespace laws
