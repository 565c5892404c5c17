#include <gpipe/core/hash.hpp>

#include <doctest/doctest.h>

#include <string_view>

namespace {

std::uint64_t hash_of(std::string_view text) {
  gpipe::detail::hash sum;
  sum.add(reinterpret_cast<const std::byte*>(text.data()), text.size());
  return sum.value();
}

}  // namespace

TEST_CASE("the hash has FNV-1a's published values") {
  CHECK(hash_of("") == 0xcbf29ce484222325u);
  CHECK(hash_of("a") == 0xaf63dc4c8601ec8cu);
  CHECK(hash_of("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("bytes can be added in parts") {
  constexpr std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  gpipe::detail::hash whole, parts;
  whole.add(bytes, 3);
  parts.add(bytes, 1);
  parts.add(bytes + 1, 2);
  CHECK(whole.value() == parts.value());
  parts.add(bytes, 0);
  CHECK(whole.value() == parts.value());
}
