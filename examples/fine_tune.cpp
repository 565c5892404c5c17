// Learns the ten digits and saves the model. A second model, of odd and even digits, takes all but the
// head from it and trains a new head alone, on 40 images. A third one learns the same images from the start.

#include <gpipe.hpp>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

using namespace gpipe;

template <int Classes>
struct net : model<input<float, 64>,
                   named<"features", linear<64>, repeat<4, residual<layer_norm, linear<128>, gelu, linear<64>>>>,
                   named<"head", layer_norm, linear<Classes>>, softmax_cross_entropy> {};

constexpr plan_options two_stages{.stages = 2, .micro_batches = 2, .micro_batch_size = 16};

struct halves {
  dataset train, test;
};

/// The first images, with their digit modulo `classes` as the label. Every fifth one is held out, and at most `most`
/// are for the training.
halves labelled(const dataset& all, std::int32_t classes, std::size_t max) {
  std::vector<int> train, test;
  for (int i = 0; i < all.samples(); ++i) {
    if (i % 5 == 4) test.push_back(i);
    else if (train.size() < max) train.push_back(i);
  }
  halves found{all.select(train), all.select(test)};
  for (dataset* part : {&found.train, &found.test})
    for (std::int32_t& label : part->field<std::int32_t>("labels")) label %= classes;
  return found;
}

/// A new trainer's accuracy on the held-out images, after it has loaded what fits of `file`, if there is one.
double train_odd_or_even(const halves& data, const std::string& file) {
  training_options how{.seed = 1};
  if (!file.empty()) how.groups = {{.parameters = {"features.*"}, .frozen = true}};
  trainer<net<2>, adamw> training{two_stages, adamw{.learning_rate = 3e-3}, how};
  if (!file.empty()) {
    const load_result found = training.load(file, load_mode::partial);
    std::cout << found.loaded.size() << " arrays are loaded, and not:\n";
    for (const std::string& name : found.misshaped) std::cout << "  " << name << '\n';
  }
  fit(training, data.train, {.epochs = 40, .batch = 20});
  return training.evaluate(data.test).accuracy();
}

int main() {
  dataset all = read_csv(GPIPE_EXAMPLES_DATA "/digits.csv", 64, 10);
  for (float& x : all.field<float>("inputs")) x = x / 8 - 1;  // [-1, 1]
  const std::string file = (std::filesystem::temp_directory_path() / "gpipe_fine_tune.safetensors").string();

  const halves digits = labelled(all, 10, SIZE_MAX);
  trainer<net<10>, adamw> training{two_stages, adamw{.learning_rate = 3e-3}, {.seed = 1}};
  fit(training, digits.train, {.epochs = 6, .batch = 32});
  std::cout << "ten digits: test accuracy " << training.evaluate(digits.test).accuracy() << '\n';
  training.save(file);  // the model alone

  const halves few = labelled(all, 2, 40);
  const double tuned = train_odd_or_even(few, file), alone = train_odd_or_even(few, "");
  std::filesystem::remove(file);
  std::cout << "odd or even, a new head on old features: test accuracy " << tuned << '\n'
            << "odd or even, from the start: test accuracy " << alone << '\n';
  return tuned > alone ? 0 : 1;
}
