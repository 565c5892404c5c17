#include <gpipe/model/lengths.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>

using namespace gpipe;

namespace {

template <int Tokens>
using text = gpt2<2, 16, 2, Tokens, 20, float, 16>;
template <int Tokens>
using translation =
    encoder_decoder<1, 32, 2,
                    encoder_decoder_options{.source_tokens = Tokens, .vocabulary = 20, .width = 16, .head_width = 8}>;

using texts = lengths<text, 4, 8, 16>;
using translations = lengths<translation, 4, 16>;

static_assert(std::is_same_v<texts::longest, text<16>>);
static_assert(texts::share && translations::share);
static_assert(lengths<text, 16>::share);

}  // namespace

TEST_CASE("the networks of all lengths have the same parameters, and edges of their own") {
  const auto nets = texts::networks();
  REQUIRE(nets.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(nets[i]->parameters() == network_of<text<16>>.parameters());
    CHECK(nets[i]->values[0].part.size == static_cast<std::size_t>(texts::values[i]));
  }
  // GPT-2 of as many positions as tokens has fewer of them.
  CHECK(network_of<gpt2<2, 16, 2, 4, 20>>.parameters() == network_of<text<4>>.parameters() - 12 * 16);
}

TEST_CASE("a buffer that depends on the length has the bytes of the longest, and is made anew") {
  const auto nets = translations::networks();
  constexpr auto anew = translations::derives_anew();
  int count = 0;
  for (int l = 0; l < nets[0]->layer_count; ++l) {
    CHECK(nets[0]->type_of(l).derived_bytes() == nets[1]->type_of(l).derived_bytes());
    const bool is_of_positions = nets[0]->type_of(l).name == "sinusoidal_positions";
    CHECK(anew[static_cast<std::size_t>(l)] == is_of_positions);
    count += is_of_positions;
  }
  CHECK(count == 2);
  for (const bool it : texts::derives_anew()) CHECK(!it);
}

namespace {

/// Two of four rows of a table.
template <int Rows, int First>
struct rows_of_table {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {Rows, 2}}};
    static constexpr int first_row = First;
  };
};
template <int First>
struct reads_rows : model<input<float, 8>, tied<"w", rows_of_table<4, 0>>, tied<"w", rows_of_table<2, First>>> {};

}  // namespace

TEST_CASE("models that tie other rows are other models") {
  using gpipe::detail::first_other_layer;
  CHECK(first_other_layer(network_of<reads_rows<0>>, network_of<reads_rows<0>>) == -1);
  CHECK(first_other_layer(network_of<reads_rows<0>>, network_of<reads_rows<2>>) == 1);
}

TEST_CASE("models whose arrays depend on the length are found") {
  using gpipe::detail::first_mismatch;
  using gpipe::detail::first_other_layer;
  const auto found = first_mismatch(network_of<gpt2<2, 16, 2, 4, 20>>, network_of<text<16>>);
  CHECK(found.layer_index == 1);
  CHECK(found.name == "weight");
  CHECK(found.shape.extents == gpipe::detail::shape{4, 16});
  CHECK(found.longest.extents == gpipe::detail::shape{16, 16});
  CHECK(first_mismatch(network_of<text<4>>, network_of<text<16>>).layer_index == -1);
  CHECK(first_other_layer(network_of<gpt2<1, 16, 2, 4, 20>>, network_of<text<16>>) >= 0);
  CHECK(first_other_layer(network_of<text<4>>, network_of<text<16>>) == -1);
}
