#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/device/host/context.hpp>

#include "support/larger_error.hpp"
#include "support/on_gpu.hpp"

// Compares every operation with the host's.

using namespace gpipe;

namespace {

template <class T>
double worst(const std::vector<T>& got, const std::vector<T>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (got[i] != want[i]) largest = larger_error(largest, off);  // infinities are equal
  }
  return largest;
}

// Sums of k products of numbers below 1/2, each device in its own order.
template <class T>
double tolerance(int k) {
  return (sizeof(T) == 4 ? 1e-7 : 2e-16) * (4 + k);
}

constexpr std::size_t cells(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

struct count {
  int* visits;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { ++visits[i]; }
};
struct row_statistics {
  const float* values;
  std::ptrdiff_t width;
  float *sums, *tops, *doubled;
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const float* from = values + row * width;
    float* into = doubled + row * width;
    const std::ptrdiff_t last = width - 1;
    tops[row] = team.maximum(width, -1.0F, [from](std::ptrdiff_t i) { return from[i]; });
    team.each(width, [=](std::ptrdiff_t i) { into[i] = 2 * from[i]; });
    float both = 0;  // of one sum at once behind another, which uses the same shared memory
    for (const std::ptrdiff_t end : {last, last})
      both += team.sum(width, [=](std::ptrdiff_t i) { return into[end - i]; });
    sums[row] = both;
  }
};
struct statistics_of_narrow_rows : row_statistics {
  std::ptrdiff_t row_width() const { return width; }
};
struct entry {
  const float* values;
  std::ptrdiff_t width;
  GPIPE_HOST_DEVICE float operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return values[row * width + column];
  }
};
struct negated {
  const float* values;
  std::ptrdiff_t width;
  GPIPE_HOST_DEVICE float operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return -values[row * width + column];
  }
};
struct number {
  const float* values;
  GPIPE_HOST_DEVICE float operator()(std::ptrdiff_t i) const { return values[i]; }
};

const host::context here;

const int many = short_settings ? 100 : 70'000;  // more than the number of blocks

}  // namespace

// change: a kernel operation
TEST_CASE("each visits every index once") {
  const gpipe::cuda::context there;
  for (const int n : {0, 1, 7, 1000, short_settings ? 5000 : 300'000}) {
    const on_gpu<int> visits(there, std::vector<int>(static_cast<std::size_t>(n) + 1));
    there.each(n, count{visits});
    int wrong = 0;
    const auto found = visits.back();
    for (int i = 0; i < n; ++i) wrong += found[static_cast<std::size_t>(i)] == 1 ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(found.back() == 0);
  }
}

TEST_CASE_TEMPLATE("rows gives each row a team, whose loops run one after the other", F, row_statistics,
                   statistics_of_narrow_rows) {
  const gpipe::cuda::context there;
  for (const int rows : {1, 5, many})
    for (const int width : {1, 31, 256, 257, 1000, 1025}) {
      if (rows > 5 && width > 31) continue;
      CAPTURE(rows);
      CAPTURE(width);
      const auto values = drawn_numbers<float>(cells(rows, width));
      std::vector<float> sums(cells(rows, 1)), tops(sums), doubled(values.size());
      const on_gpu<float> v(there, values), s(there, sums), t(there, tops), w(there, doubled);
      here.rows(rows, row_statistics{values.data(), width, sums.data(), tops.data(), doubled.data()});
      there.rows(rows, F{row_statistics{v, width, s, t, w}});
      CHECK(worst(s.back(), sums) < 4 * tolerance<float>(width));
      CHECK(t.back() == tops);
      CHECK(w.back() == doubled);
    }
}

TEST_CASE("a block works on several rows and columns, one after the other") {
  using namespace gpipe::cuda::detail;
  const gpipe::cuda::context there;
  constexpr int rows = 150, n = 100;
  const auto values = drawn_numbers<float>(cells(rows, n));
  std::vector<float> sums(cells(rows, 1)), tops(sums), doubled(values.size()), into(cells(1, n));
  const on_gpu<float> v(there, values), s(there, sums), t(there, tops), w(there, doubled), i(there, into),
      again(there, into);
  here.rows(rows, row_statistics{values.data(), n, sums.data(), tops.data(), doubled.data()});
  here.columns(rows, n, entry{values.data(), n}, into.data());
  gpipe::cuda::launch<std::ptrdiff_t, row_statistics>(there.queue(), dim3(1), dim3(gpipe::cuda::team::threads),
                                                      over_rows<row_statistics>, rows, row_statistics{v, n, s, t, w});
  const on_gpu<double> groups(there, std::vector<double>(cells(2, n)));
  const on_gpu<unsigned> arrived(there, std::vector<unsigned>(4));
  column_parts of(rows, n);  // three parts, in two groups of two
  of.group = 2;
  using sum = column_sum<entry, float>;
  for (const on_gpu<float>* const at : {&i, &again})
    gpipe::cuda::launch<column_parts, double*, unsigned*, sum>(there.queue(), dim3(1), dim3(gpipe::cuda::team::threads),
                                                               over_columns<sum>, of, groups.data(), arrived.data(),
                                                               sum{{v, n}, at->data()});
  CHECK(worst(s.back(), sums) < 4 * tolerance<float>(n));
  CHECK(t.back() == tops);
  CHECK(w.back() == doubled);
  CHECK(i.back() == into);
  CHECK(again.back() == into);
  CHECK(arrived.back() == std::vector<unsigned>(4));
  const on_gpu<float> narrow(there, std::vector<float>(sums.size()));
  using of_warps = statistics_of_narrow_rows;
  gpipe::cuda::launch<std::ptrdiff_t, of_warps>(there.queue(), dim3(1), dim3(gpipe::cuda::team::threads),
                                                over_narrow_rows<of_warps>, rows,
                                                of_warps{row_statistics{v, n, narrow, t, w}});
  CHECK(worst(narrow.back(), sums) < 4 * tolerance<float>(n));
}

TEST_CASE("columns adds up rows onto the previous content, with the host's bits") {
  const gpipe::cuda::context there;
  // Their sums in double are exact for numbers with 24 bits of one size, so that the order of the parts is not seen.
  const auto agree = [&](int rows, int n) {
    CAPTURE(rows);
    CAPTURE(n);
    const auto values = drawn_numbers<float>(cells(rows, n));
    auto into = drawn_numbers<float>(cells(1, n), 1);
    const on_gpu<float> v(there, values), i(there, into);
    here.columns(rows, n, entry{values.data(), n}, into.data());
    there.columns(rows, n, entry{v, n}, i.data());
    CHECK(i.back() == into);
    // Two sums in one kernel.
    auto turned = drawn_numbers<float>(cells(1, n), 2), other = drawn_numbers<float>(cells(1, n), 3);
    const on_gpu<float> t(there, turned), o(there, other);
    here.columns(rows, n, entry{values.data(), n}, turned.data());
    here.columns(rows, n, negated{values.data(), n}, other.data());
    there.columns(rows, n, entry{v, n}, t.data(), negated{v, n}, o.data());
    CHECK(t.back() == turned);
    CHECK(o.back() == other);
  };
  for (const int rows : {0, 1, 9, 63, 64, 65, 128, 200, 1000, 5000})
    for (const int n : {1, 10, 31, 32, 33, 100})
      if (!short_settings || rows * n < 100'000) agree(rows, n);
  agree(2, 140'000);  // more columns than sums of parts
  if (short_settings) return;
  agree(70'000, 33);
  agree(200, 70'000);  // a part of all rows
  agree(8192, 768);
}

TEST_CASE("a sum over many rows is as exact as the host's, and has the same bits each time") {
  const gpipe::cuda::context there, other;
  const std::vector<float> values(static_cast<std::size_t>(many) * 100, 0.1F);
  const int rows = static_cast<int>(values.size());
  const on_gpu<float> v(there, values), first(there, {0}), second(there, {0});
  there.finish();
  there.columns(rows, 1, entry{v, 1}, first.data());
  other.columns(rows, 1, entry{v, 1}, second.data());
  other.finish();
  CHECK(std::fabs(static_cast<double>(first.back()[0]) / (rows * static_cast<double>(0.1F)) - 1) < 1e-6);
  CHECK(first.back() == second.back());
}

TEST_CASE("the parts of rows have all rows, few sums, and threads for 132 multiprocessors") {
  using parts = gpipe::cuda::detail::column_parts;
  for (const std::ptrdiff_t rows : {0, 1, 64, 65, 1000, 8192, 8193, 70'000, 3'000'000})
    for (const std::ptrdiff_t n : {1, 33, 64, 768, 1032, 3072, 50'257, 131'072, 131'073, 800'000}) {
      CAPTURE(rows);
      CAPTURE(n);
      const parts of(rows, n);
      CHECK(of.count * of.rows_of_part >= rows);
      CHECK((of.count - 1) * of.rows_of_part <= (std::max)(rows - 1, std::ptrdiff_t{0}));
      CHECK((of.count == 1 || of.count * n <= parts::most));
      CHECK(of.groups() * of.group >= of.count);
      CHECK((of.groups() == 1 || (of.group == parts::max_group && of.strips() <= gpipe::cuda::gemm::max_arrivals)));
      // Half of the most sums, if there are as many blocks.
      CHECK((of.rows_of_part == parts::block || 2 * of.count * n >= parts::most / 2));
    }
  CHECK(parts(8192, 768).count * 768 / gpipe::cuda::team::threads >= 2 * 132);
  CHECK(parts(8192, 3072).count * 3072 / gpipe::cuda::team::threads >= 2 * 132);
}

TEST_CASE("sum is in double, and gives the same bits each time") {
  const gpipe::cuda::context there;
  for (const int n : {0, 1, 1000, 4097, short_settings ? 20'000 : 3'000'000}) {
    const auto values = drawn_numbers<float>(static_cast<std::size_t>(n));
    const on_gpu<float> v(there, values);
    const on_gpu<double> first(there, {-1.0}), second(there, {-2.0});
    double want = 0;
    here.sum(n, number{values.data()}, &want);
    there.sum(n, number{v}, first);
    there.sum(n, number{v}, second);
    CHECK(std::fabs(first.back()[0] - want) < 1e-9);
    CHECK(first.back() == second.back());
  }
}

TEST_CASE("copy, fill and add") {
  const gpipe::cuda::context there;
  const on_gpu<double> a(there, {1, 2, 3}), b(there, std::vector<double>(4, -1.0));
  there.copy(3, static_cast<const double*>(a), b.data());
  CHECK(b.back() == std::vector<double>{1, 2, 3, -1});
  there.add(3, static_cast<const double*>(a), b.data());
  CHECK(b.back() == std::vector<double>{2, 4, 6, -1});
  there.fill(3, 7.0, b.data());
  CHECK(b.back() == std::vector<double>{7, 7, 7, -1});
  there.fill(8, std::byte{0}, reinterpret_cast<std::byte*>(b.data()));
  CHECK(b.back() == std::vector<double>{0, 7, 7, -1});
}

TEST_CASE_TEMPLATE("products agree with the host's, with up to the prepared number of rows", T, float, double) {
  const gpipe::cuda::context there;
  for (const auto& [n, k] : {std::pair{1, 1}, {10, 64}, {33, 7}, {64, 256}, {256, 600}}) {
    constexpr int max_rows = 70;
    CAPTURE(n);
    CAPTURE(k);
    const auto a = drawn_numbers<T>(cells(max_rows, k), 1), w = drawn_numbers<T>(cells(n, k), 2),
               row = drawn_numbers<T>(cells(1, n), 3);
    const auto dy = drawn_numbers<T>(cells(max_rows, n), 4);
    std::vector<T> packed(packed_size(k, n)), packed_back(packed_size(n, k));
    here.pack(k, n, w.data(), k, true, packed.data());
    here.pack(n, k, w.data(), k, false, packed_back.data());
    const on_gpu<T> a_(there, a), w_(there, w), row_(there, row), dy_(there, dy);
    const on_gpu<T> packed_(there, packed), packed_back_(there, packed_back);
    there.pack(k, n, static_cast<const T*>(w_), k, true, packed_.data());
    there.pack(n, k, static_cast<const T*>(w_), k, false, packed_back_.data());
    there.prepare_multiply<T>(max_rows, n, k);
    there.prepare_multiply<T>(max_rows, k, n);
    there.prepare_multiply_by_weight<T>(max_rows, n, k);
    there.prepare_multiply_back<T>(max_rows, n, k);
    there.prepare_multiply_transposed<T>(n, k, max_rows);
    for (const int rows : {1, 2, 5, 64, 70}) {
      if (short_settings && rows > 5 && n > 64) continue;
      CAPTURE(rows);
      auto y = drawn_numbers<T>(cells(rows, n), 5), dx = drawn_numbers<T>(cells(rows, k), 6),
           dw = drawn_numbers<T>(cells(n, k), 7);
      auto db = drawn_numbers<T>(cells(1, n), 8);
      const on_gpu<T> y_(there, y), z_(there, y), dx_(there, dx), dv_(there, dx), dw_(there, dw), du_(there, dw);
      const on_gpu<T> db_(there, db), plain_(there, y);

      here.multiply(rows, n, k, a.data(), packed.data(), y.data(), true);
      there.multiply(rows, n, k, static_cast<const T*>(a_), static_cast<const T*>(packed_), plain_.data(), true);
      CHECK(worst(plain_.back(), y) < tolerance<T>(k));

      here.multiply_plus(rows, n, k, a.data(), packed.data(), row.data(), y.data());
      there.multiply_plus<T>(rows, n, k, a_, packed_, row_, y_);
      there.multiply_by_weight<T>(rows, n, k, a_, w_, row_, z_);
      CHECK(worst(y_.back(), y) < tolerance<T>(k));
      CHECK(worst(z_.back(), y) < tolerance<T>(k));

      here.multiply(rows, k, n, dy.data(), packed_back.data(), dx.data(), false);
      there.multiply<T>(rows, k, n, dy_, packed_back_, dx_, false);
      there.multiply_back<T>(rows, n, k, dy_, w_, dv_);
      CHECK(worst(dx_.back(), dx) < tolerance<T>(n));
      CHECK(worst(dv_.back(), dx) < tolerance<T>(n));

      here.multiply_transposed(n, k, rows, dy.data(), a.data(), dw.data());
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < n; ++j) db[cells(1, j)] += dy[cells(r, n) + cells(1, j)];
      there.multiply_transposed<T>(n, k, rows, dy_, a_, dw_);
      there.multiply_transposed_and_sum<T>(n, k, rows, dy_, a_, du_, db_);
      CHECK(worst(dw_.back(), dw) < tolerance<T>(rows));
      CHECK(worst(du_.back(), dw) < tolerance<T>(rows));
      CHECK(worst(db_.back(), db) < tolerance<T>(rows));
    }
  }
}

TEST_CASE("products of parts of buffers, which begin anywhere, agree with the host's") {
  const gpipe::cuda::context there;
  constexpr int rows = 9, n = 17, k = 33;
  const auto a = drawn_numbers<float>(cells(rows, k) + 16, 1), b = drawn_numbers<float>(cells(rows, n) + 4, 2);
  const auto w = drawn_numbers<float>(cells(n, k) + 4, 3), row = drawn_numbers<float>(n + 4, 4);
  std::vector<float> packed(packed_size(k, n));
  here.pack(k, n, w.data(), k, true, packed.data());
  const on_gpu<float> a_(there, a), b_(there, b), w_(there, packed), row_(there, row);
  for (const int part : {0, 1, 2, 4}) {
    CAPTURE(part);
    auto y = drawn_numbers<float>(cells(rows, n) + 16, 5), dw = drawn_numbers<float>(cells(k, n) + 4, 6);
    const on_gpu<float> y_(there, y), dw_(there, dw);
    here.multiply_plus(rows, n, k, a.data(), packed.data(), row.data() + part, y.data());
    there.multiply_plus<float>(rows, n, k, a_, w_, row_ + part, y_);
    CHECK(worst(y_.back(), y) < tolerance<float>(k));
    here.multiply(rows, n, k, a.data() + 4 * part, packed.data(), y.data() + 4 * part, false);
    there.multiply<float>(rows, n, k, a_ + 4 * part, w_, y_ + 4 * part, false);
    CHECK(worst(y_.back(), y) < tolerance<float>(k));
    here.multiply_transposed(k, n, rows, a.data(), b.data() + part, dw.data() + part);
    there.multiply_transposed<float>(k, n, rows, a_, b_ + part, dw_ + part);
    CHECK(worst(dw_.back(), dw) < tolerance<float>(rows));
  }
}

TEST_CASE_TEMPLATE("attention and its gradients agree with the host's", T, float, double) {
  struct extents {
    int heads, key_heads, queries, keys, width;
    bool causal;
    std::vector<std::int32_t> lengths;
  };
  constexpr int samples = 2;
  for (const auto& e :
       {extents{1, 1, 1, 1, 1, false, {}}, extents{2, 2, 5, 5, 8, true, {}}, extents{4, 2, 19, 35, 20, false, {17, 0}},
        extents{2, 1, 33, 33, 3, true, {33, 20}}, extents{1, 1, 7, 18, 40, true, {}},
        extents{2, 2, 18, 7, 16, true, {5, 7}}, extents{2, 1, 67, 131, 20, true, {131, 70}},
        extents{2, 2, 130, 66, 9, true, {}}, extents{2, 1, 65, 65, 136, true, {}}}) {
    CAPTURE(e.queries);
    CAPTURE(e.keys);
    // Queries, keys and values side by side in a row, as in self-attention, or one array each.
    const bool together = e.queries == e.keys;
    const int of_q = e.heads * e.width, of_k = e.key_heads * e.width;
    const auto strides = [&](int rows, int columns) {
      const int row = together ? of_q + 2 * of_k : columns;
      return attention_shape::strides{std::ptrdiff_t{rows} * row, e.width, row};
    };
    const auto k_at = strides(e.keys, of_k), q_at = strides(e.queries, of_q);
    const attention_shape shape{samples, e.heads, e.key_heads, e.queries,
                                e.keys,  e.width, e.causal,    0.7,
                                q_at,    k_at,    k_at,        {std::ptrdiff_t{e.queries} * of_q, e.width, of_q}};
    const auto size = [&](const attention_shape::strides& at) { return cells(samples, static_cast<int>(at.sample)); };
    const auto q = drawn_numbers<T>(size(q_at), 1), k = drawn_numbers<T>(size(k_at), 2),
               v = drawn_numbers<T>(size(k_at), 3);
    const auto d_o = drawn_numbers<T>(size(shape.o), 4);
    std::vector<T> o(size(shape.o)), log_sums(cells(samples, e.heads * e.queries)), d_q(q.size()), d_k(k.size()),
        d_v(v.size());
    const std::int32_t* lengths = e.lengths.empty() ? nullptr : e.lengths.data();

    const gpipe::cuda::context there;
    there.template prepare_attention<T>(shape);
    here.template prepare_attention<T>(shape);
    const on_gpu<std::int32_t> given(there, e.lengths.empty() ? std::vector<std::int32_t>{0} : e.lengths);
    const std::int32_t* there_lengths = lengths == nullptr ? nullptr : given.data();
    const on_gpu<T> q_(there, q), k_(there, k), v_(there, v), d_o_(there, d_o), o_(there, o), sums_(there, log_sums);
    const on_gpu<T> d_q_(there, d_q), d_k_(there, d_k), d_v_(there, d_v);

    here.attention(shape, q.data(), k.data(), v.data(), lengths, o.data(), log_sums.data());
    there.attention<T>(shape, q_, k_, v_, there_lengths, o_, sums_);
    CHECK(worst(o_.back(), o) < tolerance<T>(e.width));
    CHECK(worst(sums_.back(), log_sums) < tolerance<T>(e.width + e.keys));
    here.attention_backward(shape, q.data(), k.data(), v.data(), lengths, o.data(), log_sums.data(), d_o.data(),
                            d_q.data(), d_k.data(), d_v.data());
    there.attention_backward<T>(shape, q_, k_, v_, there_lengths, o_, sums_, d_o_, d_q_, d_k_, d_v_);
    CHECK(worst(d_q_.back(), d_q) < tolerance<T>(e.keys));
    CHECK(worst(d_k_.back(), d_k) < 2 * tolerance<T>(e.queries));
    CHECK(worst(d_v_.back(), d_v) < 2 * tolerance<T>(e.queries));
  }
}

TEST_CASE("a head that is too wide for a GPU is rejected, with its width") {
  const gpipe::cuda::context there;
  std::string message;
  try {
    there.prepare_attention<float>({.samples = 1,
                                    .heads = 1,
                                    .key_heads = 1,
                                    .queries = 1,
                                    .keys = 1,
                                    .width = 257,
                                    .causal = false,
                                    .scale = 1,
                                    .q = {},
                                    .k = {},
                                    .v = {},
                                    .o = {}});
  } catch (const error& failure) {
    message = failure.what();
  }
  CHECK(message.find("the width of an attention's head is 257") != std::string::npos);
}

TEST_CASE("the same product gives the same bits, whatever runs in between") {
  const gpipe::cuda::context there, other;
  const int rows = short_settings ? 50 : 500, n = short_settings ? 38 : 384, k = short_settings ? 204 : 2048;
  const auto a = drawn_numbers<float>(cells(rows, k), 1), w = drawn_numbers<float>(cells(n, k), 2);
  const on_gpu<float> a_(there, a), w_(there, w), first(there, a), second(there, a);
  there.finish();
  there.multiply_back<float>(rows, k, n, a_, w_, first);
  for (int i = 0; i < 5; ++i) other.multiply_back<float>(rows, k, n, a_, w_, second);
  other.finish();
  CHECK(first.back() == second.back());
}

TEST_CASE("operations enqueued after await run after those enqueued before mark") {
  const gpipe::cuda::context one, two;
  gpipe::cuda::marker done, free;
  const int size = short_settings ? 1000 : 1 << 20, rounds = short_settings ? 10 : 50;
  const on_gpu<float> slot(one, std::vector<float>(size));
  const on_gpu<float> sum(two, std::vector<float>(size));
  one.finish(), two.finish();
  for (int round = 0; round < rounds; ++round) {
    one.await(free);
    for (int i = 0; i < 5; ++i) one.fill(size, static_cast<float>(i == 4 ? round : -1), slot.data());
    one.mark(done);
    two.await(done);
    two.add(size, static_cast<const float*>(slot), sum.data());
    two.mark(free);
  }
  CHECK(sum.back() == std::vector<float>(size, static_cast<float>((rounds - 1) * rounds / 2)));
}

TEST_CASE("finish throws a failure, with its call and its operation, and the context then works again") {
  const gpipe::cuda::context there;
  there.set_operation({.layer = "linear<512>", .layer_index = 3, .stage = 1, .micro_batch = 2});
  there.copy(10, static_cast<const float*>(nullptr), static_cast<float*>(nullptr));
  there.set_operation({.layer = "gelu", .layer_index = 4});
  std::string message;
  try {
    there.finish();
  } catch (const error& failure) {
    message = failure.what();
    CHECK(failure.where().layer_index == 3);
  }
  CHECK(message.find("layer 3 linear<512>, stage 1, micro-batch 2: cudaMemcpyAsync: ") == 0);
  there.finish();
  const on_gpu<int> still(there, {7});
  CHECK(still.back()[0] == 7);
}

TEST_CASE("a graph repeats the operations of two contexts, with refilled uploads") {
  const gpipe::cuda::context one, two;
  gpipe::cuda::marker forth, back;
  const on_gpu<float> a(one, {0, 0, 0}), sum(two, {0, 0, 0});
  one.finish(), two.finish();
  gpipe::cuda::graph captured;
  std::vector<float> numbers{1, 2, 3}, found(3);
  const auto bytes = [](auto* at) { return reinterpret_cast<std::byte*>(at); };
  one.begin(captured), two.begin(captured);
  one.upload(12, bytes(numbers.data()), bytes(a.data()));
  one.mark(forth);
  two.await(forth);
  two.add(3, static_cast<const float*>(a), sum.data());
  two.download(12, bytes(sum.data()), bytes(found.data()));
  two.mark(back);
  one.await(back);
  two.end(captured), one.end(captured);
  CHECK(sum.back() == std::vector<float>{0, 0, 0});
  one.launch(captured), one.finish();
  CHECK(found == std::vector<float>{1, 2, 3});
  numbers = {10, 20, 30};
  captured.refill(0, 12, bytes(numbers.data()));
  one.launch(captured), one.finish();
  CHECK(found == std::vector<float>{11, 22, 33});
  CHECK(sum.back() == found);

  gpipe::cuda::graph dropped;
  one.begin(dropped);
  one.fill(3, 7.0F, a.data());
  one.finish();
  CHECK(a.back() == numbers);
}
