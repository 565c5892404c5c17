// optimize: yes

#include <gpipe/layer/regularization/channel_dropout.hpp>

#include <doctest/doctest.h>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

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
