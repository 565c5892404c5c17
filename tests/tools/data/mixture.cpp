#include <gpipe/tools/data/mixture.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>

using namespace gpipe;

namespace {

/// Row i of part p is {100 p + i, p}.
dataset part_of(int p, int rows) {
  std::vector<float> inputs;
  for (int i = 0; i < rows; ++i) inputs.push_back(static_cast<float>(100 * p + i)), inputs.push_back(0.5F);
  return dataset{}.with("inputs", 2, inputs).with("labels", 1, std::vector<std::int32_t>(inputs.size() / 2, p));
}

const dataset large = part_of(0, 90), middle = part_of(1, 9), small = part_of(2, 1);
const std::vector<mixture_part> parts{{"large", &large}, {"middle", &middle}, {"small", &small}};

/// Part and number of every sample.
std::vector<std::pair<int, int>> read(const data_source& from, const batch_order& order) {
  std::vector<std::pair<int, int>> found;
  const std::unique_ptr<data_stream> stream = from.open(order);
  while (const batch* const b = stream->next()) {
    const auto* x = static_cast<const float*>(b->find("inputs")->data);
    const auto* y = static_cast<const std::int32_t*>(b->find("labels")->data);
    for (int i = 0; i < b->samples(); ++i) {
      found.emplace_back(y[i], static_cast<int>(x[2 * static_cast<std::size_t>(i)]));
      REQUIRE(found.back().second / 100 == y[i]);
      REQUIRE(x[2 * i + 1] == 0.5F);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a part is drawn with the probability n^(1 / T)") {
  for (const double T : {1.0, 1.43, 5.0, 1e6}) {
    CAPTURE(T);
    const mixture mixed(parts, {.temperature = T, .seed = 3, .samples = 100'000});
    const std::vector<int> drawn = mixed.drawn(0);
    const double sum = std::pow(90, 1 / T) + std::pow(9, 1 / T) + 1;
    for (std::size_t p = 0; p < 3; ++p) {
      const double wanted = std::pow(parts[p].data->samples(), 1 / T) / sum;
      CHECK(mixed.probability(parts[p].name) == doctest::Approx(wanted));
      const double deviation = std::sqrt(1e5 * wanted * (1 - wanted));
      CHECK(std::abs(drawn[p] - 1e5 * wanted) < 4 * deviation);
    }
    CHECK(drawn[0] + drawn[1] + drawn[2] == 100'000);
  }
}

TEST_CASE("an epoch has each sample of a part once before any comes again") {
  const mixture mixed(parts, {.temperature = 2, .seed = 1, .samples = 150});
  CHECK(mixed.samples() == 150);
  std::multiset<int> seen;
  for (const auto& [part, number] : read(mixed, {.size = 16})) seen.insert(number);
  CHECK(seen.size() == 150);
  const std::vector<int> drawn = mixed.drawn(0);
  for (int p = 0; p < 3; ++p)
    for (int i = 0; i < parts[static_cast<std::size_t>(p)].data->samples(); ++i) {
      const int rounds = drawn[static_cast<std::size_t>(p)] / parts[static_cast<std::size_t>(p)].data->samples();
      const auto count = static_cast<int>(seen.count(100 * p + i));
      CHECK((count == rounds || count == rounds + 1));
    }
}

TEST_CASE("samples are a function of seed and position: a stream goes on anywhere, and epochs differ") {
  const mixture mixed(parts, {.temperature = 5, .seed = 7});
  CHECK(mixed.samples() == 100);
  const batch_order all{.size = 16, .shuffled = true, .seed = 2, .epochs = 3};
  const auto whole = read(mixed, all);
  REQUIRE(whole.size() == 300);
  for (const data_position first : {data_position{0, 3}, data_position{1, 0}, data_position{2, 6}}) {
    batch_order rest = all;
    rest.first = first;
    const auto behind = static_cast<std::ptrdiff_t>(100 * first.epoch) + 16 * first.batch;
    CHECK(read(mixed, rest) == std::vector(whole.begin() + behind, whole.end()));
  }
  const mixture again(parts, {.temperature = 5, .seed = 7}), other(parts, {.temperature = 5, .seed = 8});
  CHECK(read(again, all) == whole);
  CHECK(read(other, all) != whole);
  CHECK(std::vector(whole.begin(), whole.begin() + 100) != std::vector(whole.begin() + 100, whole.begin() + 200));
  std::vector<int> counted(3);
  for (int i = 100; i < 200; ++i) ++counted[static_cast<std::size_t>(whole[static_cast<std::size_t>(i)].first)];
  CHECK(counted == mixed.drawn(1));
}

TEST_CASE("two streams may be in different epochs") {
  const mixture mixed(parts, {.temperature = 5, .seed = 7});
  const auto first = read(mixed, {.size = 10, .epochs = 1}), both = read(mixed, {.size = 10, .epochs = 2});
  auto a = mixed.open({.size = 10, .first = {1, 0}, .epochs = 2}), b = mixed.open({.size = 10, .epochs = 1});
  for (int i = 0; i < 10; ++i) {
    const batch *x = a->next(), *y = b->next();
    REQUIRE((x != nullptr && y != nullptr));
    for (std::size_t j = 0; j < 10; ++j) {
      const std::size_t at = 10 * static_cast<std::size_t>(i) + j;
      CHECK(static_cast<const std::int32_t*>(x->find("labels")->data)[j] == both[100 + at].first);
      CHECK(static_cast<const std::int32_t*>(y->find("labels")->data)[j] == first[at].first);
    }
  }
}

TEST_CASE("mistakes are refused by name") {
  const dataset none, other = dataset{}.with("inputs", 1, std::vector<float>{1});
  const auto refuses = [](std::vector<mixture_part> of, const mixture_options& how, const char* why) {
    CHECK_THROWS_WITH_AS(mixture(std::move(of), how), doctest::Contains(why), error);
  };
  refuses({}, {}, "the mixture has no parts");
  refuses({{"large", &large}, {"gd", &none}}, {}, "part \"gd\" of the mixture has no samples");
  refuses({{"large", &large}, {"gd", nullptr}}, {}, "part \"gd\" of the mixture has no samples");
  refuses({{"a", &large}, {"a", &middle}}, {}, "two parts of the mixture have the name \"a\"");
  refuses({{"large", &large}, {"gd", &other}}, {}, "part \"gd\" of the mixture has other fields than \"large\"");
  refuses(parts, {.temperature = 0}, "the temperature is 0");
  refuses(parts, {.temperature = -1}, "the temperature is -1");
  refuses(parts, {.temperature = NAN}, "the temperature is");
  refuses(parts, {.samples = -1}, "samples is -1");
  CHECK_THROWS_WITH_AS(mixture(parts).probability("fr"), doctest::Contains("the mixture has no part \"fr\""), error);
}
