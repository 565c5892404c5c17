#include <gpipe/core/tensors/lanes.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <gpipe/device/host/team.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// Values, sums and bytes of N lanes are those of the elements one by one, and no neighbour is written.
template <class T, int N>
void computes_as_elements() {
  using vector = lanes<T, N>;
  using number = typename vector::number;
  constexpr std::size_t count = std::size_t{N};
  std::vector<T> a(count + 2), b(count + 2), sum(count + 2, T(-7)), chosen(count + 2, T(-7)), fused(count + 2, T(-7));
  std::vector<std::uint8_t> bytes(count + 2), copied(count + 2, 99);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = T(static_cast<number>(1.0 / (static_cast<double>(i) + 3)));
    b[i] = T(static_cast<number>(i % 3) - number(0.3));
    bytes[i] = static_cast<std::uint8_t>(250 - i);
  }
  const auto x = vector::load(a.data() + 1), y = vector::load(b.data() + 1);
  vector::store(x + y, sum.data() + 1);
  vector::store(x > y ? x : y, chosen.data() + 1);
  vector::store(vector::multiply_add(vector::repeat(number(0.7)), x, y), fused.data() + 1);
  vector::store_bytes(vector::load_bytes(bytes.data() + 1), copied.data() + 1);
  std::vector<T> again(count);
  vector::store(vector::rounded(x + y), again.data());
  CHECK(std::memcmp(again.data(), sum.data() + 1, count * sizeof(T)) == 0);
  for (std::size_t i = 1; i <= count; ++i) {
    const number p = a[i], q = b[i];
    CHECK(number(sum[i]) == number(T(p + q)));
    CHECK(number(chosen[i]) == (p > q ? p : q));
    CHECK(number(fused[i]) == number(T(gpipe::detail::multiply_add(number(0.7), p, q))));
    CHECK(copied[i] == bytes[i]);
  }
  for (const std::size_t outside : {std::size_t{0}, count + 1}) {
    CHECK((number(sum[outside]) == -7 && number(chosen[outside]) == -7 && number(fused[outside]) == -7));
    CHECK(copied[outside] == 99);
  }
}

template <class T>
void all_widths() {
  constexpr int max = vector_bytes / static_cast<int>(sizeof(compute_type<T>));
  computes_as_elements<T, max>();
  computes_as_elements<T, 1>();
  if constexpr (max >= 4) computes_as_elements<T, 3>();
  if constexpr (max > 4) computes_as_elements<T, 4>();
  if constexpr (max > 8) computes_as_elements<T, 8>();
}

}  // namespace

TEST_CASE("vectors compute as their elements") {
  all_widths<float>();
  all_widths<double>();
  all_widths<bf16>();
}

TEST_CASE("blocks cover every width, and stay inside") {
  for (std::ptrdiff_t width = 0; width < 70; ++width) {
    std::vector<int> seen(static_cast<std::size_t>(width));
    with_lanes<float>(host::team{}, width, [&](auto of) {
      in_blocks(host::team{}, width, of, [&](std::ptrdiff_t first) {
        for (std::ptrdiff_t i = first; i < first + of; ++i) ++seen.at(static_cast<std::size_t>(i));
      });
    });
    for (const int times : seen) CHECK(times >= 1);
  }
}

TEST_CASE("few is a constant") {
  for (int n = 1; n < 6; ++n) {
    bool known = false;
    std::ptrdiff_t got = 0;
    with_small_count<3>(n, [&](auto of) {
      got = of;
      known = !std::is_same_v<decltype(of), int>;
    });
    CHECK(got == n);
    CHECK(known == (n <= 3));
  }
}
