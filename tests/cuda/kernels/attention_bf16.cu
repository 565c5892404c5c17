#include <gpipe/cuda/kernels/attention_bf16.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/cuda/cuda.hpp>

#include "support/larger_error.hpp"
#include "support/on_gpu.hpp"

namespace tensor_cores {

using namespace gpipe;
using namespace gpipe::cuda::detail;

namespace {

using values = std::vector<bf16>;

values drawn(std::size_t size, std::uint32_t stream) {
  values found(size);
  for (std::size_t i = 0; i < size; ++i)
    found[i] = 2 * uniform(draw({.layer_index = stream}, 1, static_cast<std::uint32_t>(i)).word[0]) - 1;
  return found;
}

struct extents {
  int heads, key_heads, queries, keys, width;
  bool causal;
  std::vector<std::int32_t> lengths;
};

/// Operands, in rows of heads side by side.
struct problem {
  static constexpr int samples = 2;
  attention_shape shape;
  std::vector<std::int32_t> lengths;
  values q, k, v, d_o;

  explicit problem(const extents& e) : lengths(e.lengths) {
    const auto strides = [&](int rows, int heads) {
      const std::ptrdiff_t row = std::ptrdiff_t{heads} * e.width;
      return attention_shape::strides{rows * row, e.width, row};
    };
    const auto of_q = strides(e.queries, e.heads), of_k = strides(e.keys, e.key_heads);
    shape = {samples, e.heads, e.key_heads, e.queries, e.keys, e.width, e.causal, 0.5, of_q, of_k, of_k, of_q};
    const auto size = [&](std::ptrdiff_t of_sample) { return static_cast<std::size_t>(samples * of_sample); };
    q = drawn(size(of_q.sample), 1), k = drawn(size(of_k.sample), 2), v = drawn(size(of_k.sample), 3);
    d_o = drawn(size(of_q.sample), 4);
  }
};

struct results {
  values o, d_q, d_k, d_v;
  std::vector<float> log_sums;
  bool operator==(const results& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    return same(o, other.o) && same(d_q, other.d_q) && same(d_k, other.d_k) && same(d_v, other.d_v) &&
           same(log_sums, other.log_sums);
  }
};

/// An array that begins `offset` elements behind what is aligned.
class placed {
 public:
  placed(const gpipe::cuda::context& there, const values& from, std::size_t offset)
      : offset_(offset), memory_(there, moved(from, offset)) {}
  bf16* data() const { return memory_.data() + offset_; }
  values back() const {
    const values all = memory_.back();
    return {all.begin() + static_cast<std::ptrdiff_t>(offset_), all.end()};
  }

 private:
  static values moved(const values& from, std::size_t offset) {
    values all(offset + from.size());
    std::memcpy(all.data() + offset, from.data(), from.size() * sizeof(bf16));
    return all;
  }
  std::size_t offset_;
  on_gpu<bf16> memory_;
};

/// The kernels that GPUs without these instructions run.
template <class... Terms>
void launch_plain(const gpipe::cuda::context& there, const attention_shape& s, int heads, int rows,
                  void (*kernel)(Terms...), std::type_identity_t<Terms>... given) {
  const auto count = attention_work::count(s.samples, heads, rows) * tile_worker<bf16>::parts_of(s.width);
  gpipe::cuda::launch<Terms...>(there.queue(), blocks(count), dim3(attention_lanes, attention_lanes), kernel, given...);
}

results run(const problem& p, std::size_t offset = 0, bool plain = false) {
  const gpipe::cuda::context there;
  there.prepare_attention<bf16>(p.shape);
  const values nan_q(p.q.size(), bf16(NAN)), nan_k(p.k.size(), bf16(NAN));
  const placed q(there, p.q, offset), k(there, p.k, offset), v(there, p.v, offset), d_o(there, p.d_o, offset);
  const placed o(there, nan_q, offset), d_q(there, nan_q, offset), d_k(there, nan_k, offset), d_v(there, nan_k, offset);
  const on_gpu<std::int32_t> counts(there, p.lengths.empty() ? std::vector<std::int32_t>{0} : p.lengths);
  const std::int32_t* lengths = p.lengths.empty() ? nullptr : counts.data();
  const on_gpu<float> log_sums(
      there, std::vector<float>(static_cast<std::size_t>(p.shape.samples * p.shape.heads * p.shape.queries)));
  const attention_shape& s = p.shape;
  if (plain) {
    launch_plain(there, s, s.heads, s.queries, attend<bf16>, s, q.data(), k.data(), v.data(), lengths, o.data(),
                 log_sums);
    launch_plain(there, s, s.heads, s.queries, differentiate_queries<bf16>, s, q.data(), k.data(), v.data(), lengths,
                 o.data(), log_sums, d_o.data(), d_q.data());
    launch_plain(there, s, s.key_heads, s.keys, differentiate_keys<bf16>, s, q.data(), k.data(), v.data(), lengths,
                 o.data(), log_sums, d_o.data(), d_k.data(), d_v.data());
    return {o.back(), d_q.back(), d_k.back(), d_v.back(), log_sums.back()};
  }
  there.attention<bf16>(p.shape, q.data(), k.data(), v.data(), lengths, o.data(), log_sums);
  there.attention_backward<bf16>(p.shape, q.data(), k.data(), v.data(), lengths, o.data(), log_sums, d_o.data(),
                                 d_q.data(), d_k.data(), d_v.data());
  return {o.back(), d_q.back(), d_k.back(), d_v.back(), log_sums.back()};
}

/// The largest difference from the formulas in double, in parts of the sum of all terms' sizes. The weights, what they
/// multiply and the results are rounded to bf16, and a weight's gradient is a difference from a sum over the rounded o.
class comparison {
 public:
  explicit comparison(const problem& p) : p_(p), d_q_(p.q.size()), d_k_(p.k.size()), d_v_(p.k.size()) {}

  double worst(const results& r) {
    const attention_shape& s = p_.shape;
    for (int n = 0; n < s.samples; ++n)
      for (int h = 0; h < s.heads; ++h)
        for (int i = 0; i < s.queries; ++i) add(r, n, h, i);
    compare(r.d_q, d_q_), compare(r.d_k, d_k_), compare(r.d_v, d_v_);
    return worst_;
  }

 private:
  struct sum {
    double value = 0, size = 0;  ///< size: of the terms
    void add(double term, double of_size) { value += term, size += std::fabs(of_size); }
    void operator+=(double term) { add(term, term); }
  };
  static std::size_t at(const attention_shape::strides& s, int n, int h, int row) {
    return static_cast<std::size_t>(n * s.sample + h * s.head + row * s.row);
  }
  void compare(double got, const sum& want) {
    worst_ = larger_error(worst_, std::fabs(got - want.value) / (want.size + 1e-6));
  }
  void compare(const values& got, const std::vector<sum>& want) {
    for (std::size_t i = 0; i < want.size(); ++i) compare(got[i], want[i]);
  }
  void add(const results& r, int n, int h, int i) {
    const attention_shape& s = p_.shape;
    const int g = h / (s.heads / s.key_heads);
    const std::size_t query = at(s.q, n, h, i), mixed = at(s.o, n, h, i);
    int end = p_.lengths.empty() ? s.keys : p_.lengths[static_cast<std::size_t>(n)];
    if (s.causal) end = (std::min)(end, (std::max)(0, i + s.keys - s.queries + 1));
    std::vector<double> weight, of_weight;
    double total = 0, mean = 0;
    for (int j = 0; j < end; ++j) {
      double score = 0, change = 0;
      for (std::size_t d = 0; d < static_cast<std::size_t>(s.width); ++d) {
        score += double(p_.q[query + d]) * double(p_.k[at(s.k, n, g, j) + d]);
        change += double(p_.d_o[mixed + d]) * double(p_.v[at(s.v, n, g, j) + d]);
      }
      weight.push_back(std::exp(s.scale * score)), of_weight.push_back(change);
      total += weight.back();
    }
    const double log_sum = r.log_sums[static_cast<std::size_t>((n * s.heads + h) * s.queries + i)];
    if (end == 0) CHECK(log_sum == -INFINITY);
    else CHECK(log_sum == doctest::Approx(std::log(total)).epsilon(1e-5));
    for (std::size_t j = 0; j < weight.size(); ++j) mean += (weight[j] /= total) * of_weight[j];
    double product = 0;  // of the sizes of o and do
    for (std::size_t d = 0; d < static_cast<std::size_t>(s.width); ++d)
      product += std::fabs(double(r.o[mixed + d]) * double(p_.d_o[mixed + d]));
    for (std::size_t d = 0; d < static_cast<std::size_t>(s.width); ++d) {
      sum o;
      for (std::size_t j = 0; j < weight.size(); ++j) {
        const std::size_t key = at(s.k, n, g, static_cast<int>(j)) + d;
        const double by = s.scale * weight[j], ds = by * (of_weight[j] - mean),
                     size = by * (std::fabs(of_weight[j]) + product);
        o += weight[j] * double(p_.v[key]);
        d_v_[key] += weight[j] * double(p_.d_o[mixed + d]);
        d_q_[query + d].add(ds * double(p_.k[key]), size * double(p_.k[key]));
        d_k_[key].add(ds * double(p_.q[query + d]), size * double(p_.q[query + d]));
      }
      compare(r.o[mixed + d], o);
    }
  }

  const problem& p_;
  std::vector<sum> d_q_, d_k_, d_v_;
  double worst_ = 0;
};

const extents shapes[] = {
    {1, 1, 1, 1, 16, false, {}},        {2, 1, 70, 70, 64, true, {}},        {4, 2, 19, 135, 40, false, {130, 0}},
    {2, 1, 65, 64, 3, true, {60, 33}},  {1, 1, 66, 131, 72, true, {131, 5}}, {3, 1, 64, 128, 128, false, {}},
    {1, 1, 130, 67, 20, true, {67, 1}}, {2, 2, 33, 70, 100, true, {}},       {2, 1, 67, 70, 136, true, {70, 40}},
    {1, 1, 65, 66, 256, true, {}},      {1, 1, 196, 196, 64, true, {}},      {1, 1, 66, 128, 32, true, {}}};

}  // namespace

TEST_CASE("attention of bf16 and its gradients are those of the formulas in double") {
  for (const extents& e : shapes) {
    CAPTURE(e.queries);
    CAPTURE(e.keys);
    CAPTURE(e.width);
    const problem p(e);
    const results r = run(p);
    const double worst = comparison(p).worst(r);
    CHECK(worst < 0x1p-7);
    if (e.width == 16 || e.width == 64 || e.width == 136) CHECK(comparison(p).worst(run(p, 0, true)) < 0x1p-7);
    if (e.width == 40 || e.width == 72) CHECK(run(p, 1) == r);  // rows that are not aligned give the same bits
  }
}

TEST_CASE("the bits of a row of bf16 do not depend on the rows beside it") {
  for (const int width : {24, 128, 200}) {
    CAPTURE(width);
    const problem all({2, 1, 70, 70, width, true, {}});
    const results of_all = run(all);
    const auto row = static_cast<std::size_t>(all.shape.o.row), of_key = static_cast<std::size_t>(all.shape.k.row);
    for (const int i : {0, 15, 64, 69}) {  // as the last of i + 1 tokens, alone
      CAPTURE(i);
      problem one = all;
      one.shape.queries = 1, one.shape.keys = i + 1, one.shape.samples = 1;
      const std::size_t first = static_cast<std::size_t>(i) * row;
      one.q = values(all.q.begin() + static_cast<std::ptrdiff_t>(first),
                     all.q.begin() + static_cast<std::ptrdiff_t>(first + row));
      one.d_o = values(all.d_o.begin() + static_cast<std::ptrdiff_t>(first),
                       all.d_o.begin() + static_cast<std::ptrdiff_t>(first + row));
      one.k.resize(static_cast<std::size_t>(i + 1) * of_key), one.v.resize(one.k.size());
      const results alone = run(one);
      CHECK(std::memcmp(alone.o.data(), of_all.o.data() + first, row * sizeof(bf16)) == 0);
      CHECK(std::memcmp(alone.d_q.data(), of_all.d_q.data() + first, row * sizeof(bf16)) == 0);
    }
    // The second sample alone: keys' gradients too.
    problem second = all;
    second.shape.samples = 1;
    for (values* x : {&second.q, &second.k, &second.v, &second.d_o})
      x->erase(x->begin(), x->begin() + static_cast<std::ptrdiff_t>(x->size() / 2));
    const results alone = run(second);
    CHECK(std::memcmp(alone.d_k.data(), of_all.d_k.data() + alone.d_k.size(), alone.d_k.size() * sizeof(bf16)) == 0);
    CHECK(std::memcmp(alone.d_v.data(), of_all.d_v.data() + alone.d_v.size(), alone.d_v.size() * sizeof(bf16)) == 0);
  }
}

TEST_CASE("lengths beyond 0 ... keys are the nearest of these, as on the host") {
  const problem p({2, 1, 5, 7, 16, false, {0, 7}});
  problem beyond = p;
  beyond.lengths = {-3, 9};
  for (const bool plain : {false, true}) CHECK(run(beyond, 0, plain) == run(p, 0, plain));
}

}  // namespace tensor_cores
