// optimize: yes

#include <gpipe/layer/regularization/dropout.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include <gpipe/layer/regularization/channel_dropout.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <class Trial>
void run_on_ones(Trial& t) {
  for (auto* buffer : {&t.in[0], &t.out_gradient[0]})
    for (std::size_t i = 0; i < buffer->count(); ++i) buffer->set(i, 1);
  t.forward();
  t.backward_input();
}

template <class Trial>
bool same_output(const Trial& a, const Trial& b) {
  return a.out[0].bits() == b.out[0].bits();
}

}  // namespace

TEST_CASE_TEMPLATE("the mask is a function of the counter, and backward draws the same mask", T, float, double) {
  constexpr std::size_t size = 2 * 5 * 7;  // not a multiple of the four words of a draw
  host::layer_fixture<dropout<30>, tensor<T, 2, 5, 7>> t(3, 3);
  run_on_ones(t);
  for (std::uint32_t sample = 0; sample < 3; ++sample)
    for (std::uint32_t i = 0; i < size; ++i) {
      const bool dropped = draw(t.call().random, sample, i / 4).word[i % 4] < 0.3 * 0x1p32;
      const double want = dropped ? 0 : static_cast<double>(T(100) / T(70));
      CHECK(t.out[0].get(sample * size + i) == want);
      CHECK(t.in_gradient[0].get(sample * size + i) == want);
    }
  CHECK(t.overrun().empty());
}

TEST_CASE("the share of dropped elements is the given one, and the mean is kept") {
  host::layer_fixture<dropout<20>, tensor<float, 4096>> t(8, 8);
  run_on_ones(t);
  int dropped = 0;
  double sum = 0;
  for (std::size_t i = 0; i < t.out[0].count(); ++i) {
    dropped += t.out[0].get(i) == 0 ? 1 : 0;
    sum += t.out[0].get(i);
  }
  const double count = static_cast<double>(t.out[0].count());
  CHECK(std::fabs(dropped / count - 0.2) < 0.01);
  CHECK(std::fabs(sum / count - 1) < 0.01);
}

TEST_CASE("evaluation and a probability of 0 change nothing") {
  host::layer_fixture<dropout<50>, tensor<float, 9>> evaluating(2, 2);
  evaluating.call().training = false;
  host::layer_fixture<dropout<0>, tensor<float, 9>> none(2, 2);
  run_on_ones(evaluating);
  run_on_ones(none);
  for (std::size_t i = 0; i < 18; ++i) {
    CHECK(evaluating.out[0].get(i) == 1);
    CHECK(evaluating.in_gradient[0].get(i) == 1);
    CHECK(none.out[0].get(i) == 1);
  }
}

TEST_CASE("the mask depends on layer, step and position in the mini-batch, not on the cut into micro-batches") {
  using layer_fixture = host::layer_fixture<dropout<50>, tensor<float, 64>>;
  layer_fixture a(4, 4), layer(4, 4), step(4, 4), moved(2, 2);
  layer.call().random.layer_index += 1;
  step.call().random.step += 1;
  moved.call().random.first_sample += 2;
  for (layer_fixture* t : {&a, &layer, &step, &moved}) run_on_ones(*t);
  CHECK_FALSE(same_output(a, layer));
  CHECK_FALSE(same_output(a, step));
  CHECK(std::memcmp(a.out[0].data() + 2 * 64 * sizeof(float), moved.out[0].data(), 2 * 64 * sizeof(float)) == 0);
}

TEST_CASE_TEMPLATE("a probability and its percent are the same layer, to the bit and to the name", T, float, double) {
  host::layer_fixture<dropout<30>, tensor<T, 37>> percent(3, 3);
  host::layer_fixture<dropout<0.3>, tensor<T, 37>> probability(3, 3);
  run_on_ones(percent);
  run_on_ones(probability);
  for (std::size_t i = 0; i < 3 * 37; ++i) CHECK(percent.out[0].get(i) == probability.out[0].get(i));
  CHECK(detail::bound<dropout<0.3>, tensor<T, 37>>::name == "dropout<30>");
  CHECK(detail::bound<dropout<0.125>, tensor<T, 37>>::name == "dropout<0.125>");
  static_assert(std::is_same_v<dropout<0.3>, dropout<30>>);
}

TEST_CASE("a probability between two percents drops its share") {
  host::layer_fixture<dropout<0.125>, tensor<float, 4096>> t(8, 8);
  run_on_ones(t);
  int dropped = 0;
  for (std::size_t i = 0; i < t.out[0].count(); ++i) {
    dropped += t.out[0].get(i) == 0 ? 1 : 0;
    if (t.out[0].get(i) != 0) CHECK(t.out[0].get(i) == static_cast<double>(1 / 0.875F));
  }
  CHECK(std::fabs(dropped / static_cast<double>(t.out[0].count()) - 0.125) < 0.01);
}

namespace {

using fixture = host::layer_fixture<channel_dropout<40>, feature_map<double, 70, 3, 2>>;

}  // namespace

TEST_CASE("a channel of a sample is dropped as a whole or scaled, and its gradient with it") {
  fixture t(20, 20);
  t.randomize(1);
  t.forward();
  t.backward_input();
  int dropped = 0;
  for (std::size_t sample = 0; sample < 20; ++sample)
    for (std::size_t c = 0; c < 70; ++c) {
      const std::size_t first = sample * 420 + c;
      const double scale = t.out[0].get(first) == 0 ? 0 : 100.0 / 60;
      dropped += scale == 0;
      for (std::size_t i = first; i < first + 420; i += 70) {
        CHECK(t.out[0].get(i) == t.in[0].get(i) * scale);
        CHECK(t.in_gradient[0].get(i) == t.out_gradient[0].get(i) * scale);
      }
    }
  CHECK(dropped > 0.36 * 1400);  // 2.7 deviations
  CHECK(dropped < 0.44 * 1400);
}

TEST_CASE("each channel has a draw of its own: the words of the key, 4 channels a draw") {
  fixture t(20, 20);
  t.randomize(1);
  t.forward();
  for (std::uint32_t sample = 0; sample < 20; ++sample)
    for (std::uint32_t c = 0; c < 70; ++c) {
      const bool dropped = draw(t.call().random, sample, c / 4).word[c % 4] < 0.4 * 0x1p32;
      CHECK((t.out[0].get(std::size_t{sample} * 420 + c) == 0) == dropped);
    }
}

TEST_CASE("no two channels are dropped together in all samples, and no two samples in all channels") {
  fixture t(40, 40);
  t.randomize(1);
  t.forward();
  const auto dropped = [&](std::size_t sample, std::size_t c) { return t.out[0].get(sample * 420 + c) == 0; };
  for (std::size_t a = 0; a < 70; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      int together = 0;
      for (std::size_t sample = 0; sample < 40; ++sample) together += dropped(sample, a) == dropped(sample, b);
      CHECK(together < 38);
    }
  for (std::size_t a = 0; a < 40; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      int together = 0;
      for (std::size_t c = 0; c < 70; ++c) together += dropped(a, c) == dropped(b, c);
      CHECK(together < 60);
    }
}

TEST_CASE("a sample's channels depend on its position in the mini-batch and on the step, not on the micro-batch") {
  fixture whole(4, 4), late(2, 4);
  whole.randomize(1);
  late.randomize(1);
  whole.forward();
  late.call().in[0] = whole.in[0].data() + 2 * 420 * sizeof(double);
  late.call().random.first_sample += 2;
  late.forward();
  for (std::size_t i = 0; i < 840; ++i) CHECK(late.out[0].get(i) == whole.out[0].get(840 + i));
  late.call().random.step += 1;
  late.forward();
  int others = 0;
  for (std::size_t i = 0; i < 840; ++i) others += late.out[0].get(i) != whole.out[0].get(840 + i);
  CHECK(others > 200);
}

TEST_CASE("evaluation changes nothing") {
  fixture t(2, 2);
  t.randomize(1);
  t.call().training = false;
  t.forward();
  CHECK(t.out[0].bits() == t.in[0].bits());
}
