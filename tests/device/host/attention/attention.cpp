// optimize: kernels

#include <gpipe/device/host/attention/attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/larger_error.hpp"
#include "support/sanitized.hpp"
#include "support/stack_depth.hpp"

#if GPIPE_WITH_LIBXSMM
#include <libxsmm.h>
#endif

using namespace gpipe;

namespace {
thread_local int allocations = 0;
}

#if defined(__GLIBC__) && !defined(TESTS_SANITIZED)  // a sanitizer replaces the allocating functions itself
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t n) noexcept { return ++allocations, __libc_malloc(n); }
void* calloc(std::size_t n, std::size_t m) noexcept { return ++allocations, __libc_calloc(n, m); }
void* aligned_alloc(std::size_t b, std::size_t n) noexcept { return ++allocations, __libc_memalign(b, n); }
}
#endif

namespace {

using array = std::vector<double>;

/// Numbers in [-1, 1] that are exact in bf16.
array numbers(std::size_t count, std::uint32_t seed) {
  array all(count);
  for (double& x : all) {
    seed = seed * 1664525u + 1013904223u;
    x = (static_cast<double>(seed >> 24) - 128) / 128;
  }
  return all;
}

std::ptrdiff_t at(const attention_shape::strides& s, int sample, int head, int row) {
  return sample * s.sample + head * s.head + row * s.row;
}

struct results {
  array o, log_sums, d_q, d_k, d_v;
};

/// Attention and its gradients from the formulas, with the whole matrix of weights, in double.
void reference(const attention_shape& s, const array& q, const array& k, const array& v, const std::int32_t* lengths,
               const array& d_o, results& r) {
  for (int n = 0; n < s.samples; ++n)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < s.queries; ++i) {
        const int g = h * s.key_heads / s.heads;
        const double* query = &q[std::size_t(at(s.q, n, h, i))];
        const double* gradient = &d_o[std::size_t(at(s.o, n, h, i))];
        array p, dp;
        double sum = 0, mean = 0;
        for (int j = 0; j < (lengths ? lengths[n] : s.keys) && (!s.causal || j - i <= s.keys - s.queries); ++j) {
          double score = 0, change = 0;
          for (int c = 0; c < s.width; ++c) score += query[c] * k[std::size_t(at(s.k, n, g, j) + c)];
          for (int c = 0; c < s.width; ++c) change += gradient[c] * v[std::size_t(at(s.v, n, g, j) + c)];
          p.push_back(std::exp(s.scale * score)), dp.push_back(change);
          sum += p.back();
        }
        r.log_sums[std::size_t((n * s.heads + h) * s.queries + i)] = std::log(sum);
        for (std::size_t j = 0; j < p.size(); ++j) mean += (p[j] /= sum) * dp[j];
        for (std::size_t j = 0; j < p.size(); ++j)
          for (int c = 0; c < s.width; ++c) {
            const auto key = std::size_t(at(s.k, n, g, int(j)) + c), value = std::size_t(at(s.v, n, g, int(j)) + c);
            const double ds = s.scale * p[j] * (dp[j] - mean);
            r.o[std::size_t(at(s.o, n, h, i) + c)] += p[j] * v[value];
            r.d_v[value] += p[j] * gradient[c];
            r.d_q[std::size_t(at(s.q, n, h, i) + c)] += ds * k[key];
            r.d_k[key] += ds * query[c];
          }
      }
}

/// Rows of heads side by side, [rows][heads][width], or one head after the other, [heads][rows][width].
enum class layout { fused, per_head };

struct problem {
  attention_shape shape;
  std::vector<std::int32_t> lengths;
  array q, k, v, d_o;
  std::size_t of_q, of_k, of_v, of_o, sums;

  problem(int samples, int heads, int key_heads, int queries, int keys, int width, bool causal, layout in,
          std::vector<std::int32_t> counts = {})
      : shape{samples, heads, key_heads, queries, keys, width, causal, 1 / std::sqrt(double(width)), {}, {}, {}, {}},
        lengths(std::move(counts)) {
    const auto strides = [&](int of_heads, int rows, int parts) -> attention_shape::strides {
      const std::ptrdiff_t row = std::ptrdiff_t{width} * of_heads * parts;
      if (in == layout::fused) return {row * rows, width, row};
      return {std::ptrdiff_t{width} * of_heads * rows, std::ptrdiff_t{width} * rows, width};
    };
    shape.q = strides(heads, queries, 3), shape.o = strides(heads, queries, 1);
    shape.k = shape.v = strides(key_heads, keys, 2);
    of_q = elements(shape.q, heads, queries), of_o = elements(shape.o, heads, queries);
    of_k = elements(shape.k, key_heads, keys), of_v = of_k;
    sums = std::size_t(samples) * std::size_t(heads) * std::size_t(queries);
    q = numbers(of_q, 1), k = numbers(of_k, 2), v = numbers(of_v, 3), d_o = numbers(of_o, 4);
    for (double& x : q) x *= 2;
  }

  std::size_t elements(const attention_shape::strides& s, int heads, int rows) const {
    return std::size_t(at(s, shape.samples - 1, heads - 1, rows - 1) + shape.width);
  }
  const std::int32_t* counted() const { return lengths.empty() ? nullptr : lengths.data(); }
  results plain() const {
    results r{array(of_o), array(sums), array(of_q), array(of_k), array(of_v)};
    reference(shape, q, k, v, counted(), d_o, r);
    return r;
  }
};

template <class T>
std::vector<T> in(const array& of) {
  return std::vector<T>(of.begin(), of.end());
}
template <class T>
array out(const std::vector<T>& of) {
  array all(of.size());
  std::transform(of.begin(), of.end(), all.begin(), [](T x) { return static_cast<double>(compute_type<T>(x)); });
  return all;
}

constexpr double untouched = -77;

template <class T>
struct computed {
  std::vector<T> o, d_q, d_k, d_v;
  std::vector<compute_type<T>> log_sums;
};

template <class Attention, class T>
computed<T> run(const problem& p, const std::vector<T>* rounded_o = nullptr) {
  const auto q = in<T>(p.q), k = in<T>(p.k), v = in<T>(p.v), d_o = in<T>(p.d_o);
  const auto fill = [](std::size_t n) { return std::vector<T>(n, T(float(untouched))); };
  computed<T> r{fill(p.of_o), fill(p.of_q), fill(p.of_k), fill(p.of_v), std::vector<compute_type<T>>(p.sums)};
  Attention::forward(p.shape, q.data(), k.data(), v.data(), p.counted(), r.o.data(), r.log_sums.data());
  Attention::backward(p.shape, q.data(), k.data(), v.data(), p.counted(), (rounded_o ? *rounded_o : r.o).data(),
                      r.log_sums.data(), d_o.data(), r.d_q.data(), r.d_k.data(), r.d_v.data());
  return r;
}

/// The largest difference over the largest magnitude. Elements between rows, which have no part in it, must be as they
/// were.
double deviation(const array& found, const array& expected, const attention_shape::strides& strides, int samples,
                 int heads, int rows, int width) {
  double worst = 0, largest = 0.05;
  std::vector<char> written(found.size(), 0);
  for (int n = 0; n < samples; ++n)
    for (int h = 0; h < heads; ++h)
      for (int row = 0; row < rows; ++row)
        for (int c = 0; c < width; ++c) {
          const auto i = std::size_t(at(strides, n, h, row) + c);
          written[i] = 1;
          largest = std::max(largest, std::fabs(expected[i]));
          const double difference = std::fabs(found[i] - expected[i]);
          worst = larger_error(worst, difference);
        }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!written[i] && found[i] != untouched) return 1e9;
  return worst / largest;
}

template <class Attention, class T>
void agrees(const problem& p) {
  const auto& s = p.shape;
  const std::string text = std::to_string(s.samples) + " samples, " + std::to_string(s.heads) + "/" +
                           std::to_string(s.key_heads) + " heads, " + std::to_string(s.queries) + " queries, " +
                           std::to_string(s.keys) + " keys, width " + std::to_string(s.width) +
                           (s.causal ? ", causal" : "") + (p.lengths.empty() ? "" : ", lengths");
  INFO(text);
  const double limit = std::is_same_v<T, double> ? 2e-14 : std::is_same_v<T, float> ? 4e-6 : 1.2e-2;
  const results expected = p.plain();
  const computed<T> found = run<Attention, T>(p);
  CHECK(deviation(out(found.o), expected.o, s.o, s.samples, s.heads, s.queries, s.width) < limit);
  CHECK(deviation(out(found.d_q), expected.d_q, s.q, s.samples, s.heads, s.queries, s.width) < limit);
  CHECK(deviation(out(found.d_k), expected.d_k, s.k, s.samples, s.key_heads, s.keys, s.width) < limit);
  CHECK(deviation(out(found.d_v), expected.d_v, s.v, s.samples, s.key_heads, s.keys, s.width) < limit);
  for (std::size_t i = 0; i < p.sums; ++i) {
    const double is = static_cast<double>(found.log_sums[i]), should = expected.log_sums[i];
    if (should < -1e300) CHECK(is == -std::numeric_limits<double>::infinity());
    else CHECK(std::fabs(is - should) < 10 * limit);
  }
}

template <class Attention, class T>
void agrees_on_the_grid() {
  for (const int queries : {1, 5, 16, 63, 64, 65, 130})
    for (const bool causal : {false, true})
      agrees<Attention, T>(
          {2, 2, 2, queries, queries, queries % 2 ? 64 : 20, causal, queries % 3 ? layout::fused : layout::per_head});
  for (const auto& [queries, keys] : std::vector<std::pair<int, int>>{
           {1, 200}, {5, 63}, {64, 80}, {70, 99}, {130, 65}, {65, 130}, {40, 5}, {129, 193}, {16, 64}})
    for (const bool causal : {false, true}) {
      agrees<Attention, T>({1, 4, 2, queries, keys, 8, causal, layout::fused});
      agrees<Attention, T>({3, 2, 1, queries, keys, 32, causal, layout::per_head, {0, 1, keys}});
      agrees<Attention, T>({3, 2, 1, queries, keys, 20, causal, layout::fused, {keys, keys / 2, keys - 1}});
    }
  for (const int width : {1, 7, 16, 72, 128, 200, 256})
    agrees<Attention, T>({1, 1, 1, 97, 97, width, true, layout::fused, {90}});
  problem steep(1, 2, 2, 200, 200, 16, true, layout::fused);  // scores that grow, so that the levels move
  for (std::size_t i = 0; i < steep.k.size(); ++i) steep.k[i] *= 1 << (4 * i / steep.k.size());
  agrees<Attention, T>(steep);
  agrees<Attention, T>({1, 16, 8, 80, 80, 64, true, layout::fused});  // rows a multiple of 4096 bytes apart
}

/// A row of the output, and its log sum, do not depend on the other rows: one query alone gives the same bits, with its
/// keys and later ones, as when a cache of keys grows. Keys beyond the length are not read, whatever they are.
template <class Attention, class T>
void rows_are_independent(int width) {
  constexpr int tokens = 150;
  const problem p(1, 2, 1, tokens, tokens, width, true, layout::fused);
  const auto all = run<Attention, T>(p);
  const auto q = in<T>(p.q);
  auto k = in<T>(p.k), v = in<T>(p.v);
  for (int i = tokens - 1; i >= 0; i -= 1 + i % 7) {
    INFO(i);
    attention_shape one = p.shape;
    one.queries = 1, one.causal = false;
    const std::int32_t seen = i + 1;
    for (int j = seen; j < tokens; ++j)
      for (int c = 0; c < width; ++c)
        k[std::size_t(at(one.k, 0, 0, j) + c)] = v[std::size_t(at(one.v, 0, 0, j) + c)] =
            T(std::numeric_limits<float>::quiet_NaN());
    std::vector<T> o(std::size_t(one.o.head) + std::size_t(width));
    compute_type<T> sums[2];
    Attention::forward(one, &q[std::size_t(at(one.q, 0, 0, i))], k.data(), v.data(), &seen, o.data(), sums);
    for (int h = 0; h < 2; ++h) {
      CHECK(std::memcmp(&o[std::size_t(h * one.o.head)], &all.o[std::size_t(at(one.o, 0, h, i))],
                        std::size_t(width) * sizeof(T)) == 0);
      CHECK(sums[h] == all.log_sums[std::size_t(h * tokens + i)]);
    }
  }
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// The results in bf16 are those in float, each rounded once.
template <class Attention>
void bf16_rounds_once(const problem& p) {
  INFO(p.shape.width);
  const auto half = run<Attention, bf16>(p);
  const std::vector<float> rounded_o(half.o.begin(), half.o.end());
  const auto single = run<Attention, float>(p, &rounded_o);
  const auto round = [](const std::vector<float>& of) { return std::vector<bf16>(of.begin(), of.end()); };
  CHECK(same(half.o, round(single.o)));
  CHECK(same(half.log_sums, single.log_sums));
  CHECK(same(half.d_q, round(single.d_q)));
  CHECK(same(half.d_k, round(single.d_k)));
  CHECK(same(half.d_v, round(single.d_v)));
}

template <class Attention, class T>
void allocates_nothing() {
  const problem p(2, 4, 2, 77, 101, 24, true, layout::fused, {101, 43});  // a width of this test only
  const auto q = in<T>(p.q), k = in<T>(p.k), v = in<T>(p.v), d_o = in<T>(p.d_o);
  std::vector<T> o(p.of_o), d_q(p.of_q), d_k(p.of_k), d_v(p.of_v);
  std::vector<compute_type<T>> sums(p.sums);
  Attention::template prepare<T>(p.shape);
#if GPIPE_WITH_LIBXSMM
  libxsmm_registry_info before{}, after{};
  libxsmm_get_registry_info(&before);
#endif
  const int until_now = allocations;
  attention_shape fewer = p.shape;
  for (fewer.samples = 1; fewer.samples <= 2; ++fewer.samples)
    for (const std::int32_t length : {101, 100, 63, 17, 1, 0}) {
      const std::int32_t lengths[] = {length, 101 - length};
      Attention::forward(fewer, q.data(), k.data(), v.data(), lengths, o.data(), sums.data());
      Attention::backward(fewer, q.data(), k.data(), v.data(), lengths, o.data(), sums.data(), d_o.data(), d_q.data(),
                          d_k.data(), d_v.data());
    }
  CHECK(allocations == until_now);
#if GPIPE_WITH_LIBXSMM
  libxsmm_get_registry_info(&after);
  CHECK(before.size == after.size);
  CHECK(before.nbytes == after.nbytes);
#endif
}

/// The stack that a call needs is within the limit, and does not depend on the number of tokens.
template <class Attention, class T>
void scratch_is_constant(int width) {
  std::size_t depth[2];
  for (const int i : {0, 1}) {
    const int tokens = i == 0 ? 64 : 320;
    const problem p(1, 1, 1, tokens, tokens, width, true, layout::fused);
    const auto q = in<T>(p.q), k = in<T>(p.k), v = in<T>(p.v), d_o = in<T>(p.d_o);
    std::vector<T> o(p.of_o), d_q(p.of_q), d_k(p.of_k), d_v(p.of_v);
    std::vector<compute_type<T>> sums(p.sums);
    Attention::template prepare<T>(p.shape);
    depth[i] = stack_depth::of([&] {
      Attention::forward(p.shape, q.data(), k.data(), v.data(), nullptr, o.data(), sums.data());
      Attention::backward(p.shape, q.data(), k.data(), v.data(), nullptr, o.data(), sums.data(), d_o.data(), d_q.data(),
                          d_k.data(), d_v.data());
    });
  }
  CHECK(std::max(depth[0], depth[1]) - std::min(depth[0], depth[1]) < 1024);  // which calls were deepest
  CHECK(depth[1] > 32 * 1024);
  CHECK(depth[1] <= 192 * 1024);
}

template <class Attention>
void keeps_its_promises() {
  for (const int width : {20, 24, 64}) {
    rows_are_independent<Attention, float>(width);
    rows_are_independent<Attention, double>(width);
  }
  bf16_rounds_once<Attention>({1, 4, 2, 130, 130, 64, true, layout::fused});
  bf16_rounds_once<Attention>({2, 2, 1, 70, 99, 128, true, layout::per_head, {99, 40}});
  bf16_rounds_once<Attention>({1, 2, 2, 65, 33, 256, false, layout::fused});
  allocates_nothing<Attention, float>();
  allocates_nothing<Attention, double>();
  allocates_nothing<Attention, bf16>();
#ifndef TESTS_SANITIZED
  for (const int width : {64, 256}) {
    scratch_is_constant<Attention, float>(width);
    scratch_is_constant<Attention, double>(width);
    scratch_is_constant<Attention, bf16>(width);
  }
#endif
}

}  // namespace

TEST_CASE("gpipe's own products: bits of a row, of bf16; no allocation; the stack") {
  keeps_its_promises<host::block_attention<host::portable_products>>();
}

TEST_CASE("a head that is too wide is refused") {
  const problem p(1, 1, 1, 1, 1, 257, false, layout::fused);
  CHECK_THROWS_WITH_AS(host::attention::prepare<float>(p.shape),
                       doctest::Contains("the width of an attention's head is 257, and the host computes at most 256; "
                                         "choose more heads"),
                       gpipe::error);
}

TEST_CASE_TEMPLATE("gpipe's own products: attention and its gradients agree with the formulas", T, float, double,
                   bf16) {
  agrees_on_the_grid<host::block_attention<host::portable_products>, T>();
}

#if GPIPE_WITH_LIBXSMM
TEST_CASE_TEMPLATE("libxsmm: attention and its gradients agree with the formulas", T, float, bf16) {
  agrees_on_the_grid<host::block_attention<host::libxsmm_products>, T>();
}

TEST_CASE("libxsmm: bits of a row, of bf16; no allocation; the stack") {
  keeps_its_promises<host::block_attention<host::libxsmm_products>>();
}

// Without fused multiply-add in the compiler's target, gpipe's own products round twice.
TEST_CASE("libxsmm: random attentions have the bits of gpipe's own products" * doctest::skip(GPIPE_HAS_FMA == 0)) {
  std::uint32_t state = 7;
  const auto random = [&](int most) {
    state = state * 1664525u + 1013904223u;
    return 1 + static_cast<int>((state >> 8) % static_cast<unsigned>(most));
  };
  for (int i = 0; i < 150; ++i) {
    if (laws::left_out(i)) continue;
    const int key_heads = random(2), heads = key_heads * random(2), keys = random(i % 3 == 0 ? 200 : 40);
    const int queries = i % 4 == 0 ? keys : random(i % 3 == 0 ? 150 : 40), width = random(i % 5 == 0 ? 256 : 80);
    const problem p(random(2), heads, key_heads, queries, keys, width, random(2) == 1,
                    random(2) == 1 ? layout::fused : layout::per_head);
    INFO(queries, " queries, ", keys, " keys, width ", width, p.shape.causal ? ", causal" : "");
    const auto x = run<host::block_attention<host::libxsmm_products>, float>(p);
    const auto y = run<host::block_attention<host::portable_products>, float>(p);
    CHECK(same(x.o, y.o));
    CHECK(same(x.log_sums, y.log_sums));
    CHECK(same(x.d_q, y.d_q));
    CHECK(same(x.d_k, y.d_k));
    CHECK(same(x.d_v, y.d_v));
  }
}
#endif
