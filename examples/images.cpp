// Trains a convolutional network on real images, in pipeline stages: digits of MNIST, or silhouettes of animals.
// The last two lines have the same bits for every number of stages: compare them.

#include <gpipe.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/model/vision/unet.hpp>
#include <gpipe/tools/images/idx_images.hpp>
#include <gpipe/tools/images/image_folders.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#if GPIPE_WITH_JPEG
#include <gpipe/jpeg.hpp>
#endif
#if GPIPE_WITH_PNG
#include <gpipe/png.hpp>
#endif

#include "options.hpp"
#include "outputs.hpp"
#include "processes.hpp"
#include "saving.hpp"

using namespace gpipe;

// The models ----------------------------------------------------------------------------------------------------------

constexpr int side = 32;  // smaller images get a border
constexpr int classes = 10;

template <int Channels>
struct conv_block : sequence<conv2d<Channels, 3, conv_options{.padding = 1, .bias = false}>, batch_norm<>, relu> {};

struct convnet : model<input_image<float, 1, side, side>,                     //
                       conv_block<32>, conv_block<32>, max_pool<2>,           //
                       conv_block<64>, conv_block<64>, max_pool<2>,           //
                       conv_block<128>, max_pool<2>,                          //
                       flatten, dropout<40>, linear<128>, relu, dropout<40>,  //
                       linear<classes>, softmax_cross_entropy> {};

using cells = amoebanet_d<3, 32, amoebanet_options{.classes = classes, .side = side, .channels = 1}>;
using masks = unet<2, 8, side, 1>;

// The command line ----------------------------------------------------------------------------------------------------

enum class kind { convnet, amoebanet, unet };

// change: a command-line option
struct settings {
  plan_options plan{.stages = 2, .micro_batches = 4, .micro_batch_size = 16};
  kind model = kind::convnet;
  int batch = 64, epochs = 0, deadline = 60;
  double rate = 0;
  std::uint64_t seed = 1;
  std::string data, folder, set, log, tensorboard;
  example::transport transport = example::transport::threads;
  example::save_settings save;
  bool summary = false, quiet = false;

  int workers() const {
    const schedule_choice schedule = plan.chosen_schedule();
    return schedule.admits(plan.stages, plan.micro_batches) ? plan.replicas * schedule.workers(plan.stages) : 1;
  }

  bool read(int count, char** words) {
    std::vector<std::pair<std::string, schedule_kind>> schedules;
    for (const schedule_kind one : schedule_kinds)
      if (schedule_choice(one).trains) schedules.emplace_back(name_of(one), one);
    schedules.emplace_back(name_of(schedule_kind::searched), schedule_kind::searched);
    if (!example::options("images: trains a convolutional network on images, in a pipeline of stages.\n"
                          "The last two lines are the accuracy on held-out images and a hash of the parameters' bits.\n"
                          "They are the same for every number of stages, schedule and recompute mode.")
             .text("--data", "FOLDER", data,
                   "train-images.idx, train-labels.idx, test-images.idx, test-labels.idx;\n"
                   "                            examples/run gives those of --set")
             .text("--set", "NAME", set, "what examples/run fetches: mnist, animals or digits")
             .text("--folder", "FOLDER", folder,
                   "folders of PGM, PPM, PNG and JPEG files, one a class, instead of --data")
             .choice("--model", model,
                     {{"convnet", kind::convnet}, {"amoebanet", kind::amoebanet}, {"unet", kind::unet}},
                     "convnet: five convolutions; amoebanet: AmoebaNet-D (3, 32);\n"
                     "                            unet: finds the pixels of an image behind noise")
             .number("--epochs", epochs, 0, 100000, "passes over the training images; 0: as many as the model needs")
             .number("--batch", batch, 1, 65536, "images in a mini-batch")
             .decimal("--rate", rate, 0, 10, "the highest learning rate; 0: the model's")
             .number("--stages", plan.stages, 1, 4096, "stages of the pipeline")
             .number("--micro-batches", plan.micro_batches, 1, 4096, "micro-batches of a mini-batch in each replica")
             .choice("--schedule", plan.schedule, schedules, "the order of work")
             .number("--replicas", plan.replicas, 1, 256, "copies of the pipeline")
             // change: a recompute mode
             .choice("--recompute", plan.recompute,
                     {{"always", recompute_mode::always},
                      {"except-last", recompute_mode::except_last},
                      {"as-needed", recompute_mode::as_needed},
                      {"never", recompute_mode::never}},
                     "which micro-batches run forward again before backward")
             .recompute_layers(plan)
             .bytes("--memory-limit", plan.memory_limit, "limit of every stage, such as 64MiB")
             // change: a transport
             .choice("--transport", transport,
                     {{"threads", example::transport::threads}, {"mpi", example::transport::mpi}},
                     "workers are threads, or processes that mpirun starts")
             .number("--deadline", deadline, 1, 86400, "seconds without progress after which the program ends")
             .number("--seed", seed, 0, INT64_MAX, "seed of initial parameters, dropout, noise and shuffling")
             .text("--log", "FILE", log, "write loss, rate, norm and more of each step, to a .csv or a .jsonl file")
             .text("--tensorboard", "FOLDER", tensorboard, "the same for TensorBoard, to a new file in the folder")
             .flag("--summary", summary, "print a line for each layer: path, type, output, parameters, stage")
             .text("--save", "FOLDER", save.folder, "save a checkpoint at the end, and when the program is interrupted")
             .number("--save-every", save.every, 0, INT32_MAX, "and after each of this many steps; 0: do not")
             .text("--resume", "FOLDER", save.resumed, "go on from the newest checkpoint of a folder")
             .flag("--quiet", quiet, "print the last two lines only")
             .read(count, words))
      return false;
    save.read(count, words);
    if (!data.empty() && !folder.empty())
      throw error("option --folder: \"" + folder + "\" with --data", "give one of them");
    if (data.empty() && folder.empty())
      throw error("there is no --data", "give a folder, or start the program by examples/run images");
    if (epochs == 0) epochs = model == kind::convnet ? 15 : model == kind::amoebanet ? 12 : 4;
    if (rate == 0) rate = model == kind::convnet ? 2e-3 : 3e-3;
    return true;
  }
};

// The data ------------------------------------------------------------------------------------------------------------

/// Images in the middle of `side` x `side` pixels, as numbers in [-1, 1], and their labels. Small ones are enlarged
/// by a whole number. `path` is for errors.
dataset centred(const image_set& set, const std::string& path) {
  if (set.width > side || set.height > side)
    throw error("has images of " + std::to_string(set.width) + " x " + std::to_string(set.height) + " pixels",
                "give images of up to " + std::to_string(side) + " x " + std::to_string(side), {.file = path});
  for (const std::int32_t label : set.labels)
    if (label < 0 || label >= classes)
      throw error("has the label " + std::to_string(label),
                  "give images of at most " + std::to_string(classes) + " classes", {.file = path});
  const auto rows = static_cast<std::size_t>(set.height), columns = static_cast<std::size_t>(set.width);
  const std::size_t times = side / std::max(rows, columns), height = times * rows, width = times * columns,
                    top = (side - height) / 2, left = (side - width) / 2, count = set.labels.size();
  std::vector<float> inputs(count * side * side, -1.0F);
  for (std::size_t n = 0; n < count; ++n)
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x)
        inputs[(n * side + top + y) * side + left + x] =
            2 * set.pixels[(n * rows + y / times) * columns + x / times] - 1;
  return dataset().with("inputs", side * side, inputs).with("labels", 1, set.labels);
}

/// What to train on, and what to test on: IDX files of both, or four of five images of folders, and the fifth.
std::pair<dataset, dataset> read_images(const std::string& data, const std::string& folder) {
  if (!folder.empty()) {
    image_options grey{.channels = 1};
#if GPIPE_WITH_PNG
    grey.formats.push_back(png_format);
#endif
#if GPIPE_WITH_JPEG
    grey.formats.push_back(jpeg_format);
#endif
    return centred(read_image_folders(folder, grey), folder).split(0.8, 1);
  }
  const auto part = [&](const std::string& name) {
    const std::string path = data + "/" + name + "-images.idx";
    return centred(read_idx_images(path, data + "/" + name + "-labels.idx"), path);
  };
  return {part("train"), part("test")};
}

/// The same images for a U-Net: behind noise, with a label of 0 or 1 for each pixel. The noise depends on the seed,
/// the image and the pixel alone.
dataset behind_noise(dataset images, std::uint64_t seed) {
  std::vector<float> inputs = [&] {
    const auto& pixels = images.field<float>("inputs");
    return std::vector<float>(pixels.begin(), pixels.end());
  }();
  std::vector<float> labels(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    labels[i] = inputs[i] > 0 ? 1.0F : 0.0F;
    const auto image = static_cast<std::uint32_t>(i / (side * side)),
               pixel = static_cast<std::uint32_t>(i % (side * side));
    const random_words words = draw({.seed = seed}, image, pixel);
    inputs[i] +=
        2 * (uniform(words.word[0]) + uniform(words.word[1]) - uniform(words.word[2]) - uniform(words.word[3]));
  }
  return dataset().with("inputs", side * side, inputs).with("labels", side * side, labels);
}

// The training --------------------------------------------------------------------------------------------------------

/// The data of a training, and its options.
struct preparation {
  dataset data, test;
  fit_options epochs;
  training_options how;
};

preparation prepare(settings& chosen, process_group* job) {
  const bool prints = job == nullptr || job->rank() == 0;
  if (prints)
    example::require_outputs(chosen.folder.empty() ? chosen.data + "/train-images.idx" : chosen.folder, {chosen.log},
                             chosen.save.folder);
  auto [data, test] = read_images(chosen.data, chosen.folder);
  chosen.batch = std::min(chosen.batch, data.samples());
  const int parts = chosen.plan.all_micro_batches();
  chosen.plan.micro_batch_size = (chosen.batch + parts - 1) / parts;

  fit_options epochs{.epochs = chosen.epochs, .batch = chosen.batch, .seed = chosen.seed};
  const auto steps =
      static_cast<std::uint64_t>(epochs.steps_per_epoch(data.samples())) * static_cast<std::uint64_t>(chosen.epochs);
  return {std::move(data),
          std::move(test),
          epochs,
          {.seed = chosen.seed,
           .learning_rate_schedule = warm_up{steps / 20 + 1, cosine{steps - steps / 20}},
           .max_grad_norm = 5,
           .groups = {no_decay_for_biases_and_norms()},
           .deadline = std::chrono::seconds(chosen.deadline),
           .on_deadline = deadline_action::abort,
           .job = job}};
}

// In a job of processes every process makes the same calls, because each has a part of the answer; rank 0 prints.
int run(basic_trainer& training, preparation& with, const settings& chosen, process_group* job) {
  const bool prints = job == nullptr || job->rank() == 0;
  auto& [data, test, epochs, how] = with;
  std::ostream none(nullptr);
  std::ostream& out = chosen.quiet || !prints ? none : std::cout;
  example::resume(training, chosen.save, epochs, out);  // also the seed
  if (chosen.model == kind::unet) data = behind_noise(data, epochs.seed), test = behind_noise(test, epochs.seed + 1);
  if (chosen.summary) out << summary(training);
  out << describe(training.net(), training.plan());

  const verbosity how_shown = job == nullptr ? verbosity_for(stdout) : verbosity::lines;
  progress line(out, chosen.quiet || !prints ? verbosity::quiet : how_shown);
  std::optional<log_file> log;
  std::optional<event_folder> events;
  if (prints && !chosen.log.empty()) log.emplace(chosen.log);
  if (prints && !chosen.tensorboard.empty()) events.emplace(chosen.tensorboard);
  example::saver save(training, chosen.save, epochs.first, job);
  const augmented_images moved(data, {.height = side,
                                      .width = side,
                                      .shift = 2,
                                      .border = -1,
                                      .seed = epochs.seed,
                                      .mask = chosen.model == kind::unet ? "labels" : ""});
  fit(training, moved, epochs, [&](const fit_progress& now) {
    if (log) (*log)(now);
    if (events) (*events)(now);
    if (now.step == now.steps) line.epoch(now);
    else line.step(now);
    return save(now);
  });
  if (const int code = save.finish(); code != 0) return code;
  const double accuracy = training.evaluate(test).accuracy();
  const std::uint64_t hash = training.parameter_hash();
  if (!prints) return 0;
  std::cout << "test accuracy " << std::fixed << std::setprecision(4) << accuracy << '\n'
            << "parameters " << std::hex << std::setw(16) << std::setfill('0') << hash << '\n';
  return 0;
}

template <class Net>
int train(settings chosen, process_group* job) {
  preparation with = prepare(chosen, job);
  trainer<Net, adamw> training{chosen.plan, adamw{.learning_rate = chosen.rate, .weight_decay = 0.01}, with.how};
  return run(training, with, chosen, job);
}

int main(int count, char** words) {
  std::unique_ptr<process_group> job;  // destroyed last: after the error is printed
  int code = 0;
  try {
    settings chosen;
    if (chosen.read(count, words)) {
      job = example::join(chosen.transport, chosen.workers(), std::chrono::seconds(chosen.deadline), count, words);
      code = chosen.model == kind::convnet     ? train<convnet>(chosen, job.get())
             : chosen.model == kind::amoebanet ? train<cells>(chosen, job.get())
                                               : train<masks>(chosen, job.get());
    }
    if (!std::cout.flush()) throw error("cannot write to the standard output", "check where the output goes");
    return code;
  } catch (const std::exception& failure) {
    if (example::prints_error(job.get(), failure)) std::cerr << "images: " << failure.what() << std::endl;
    return 1;
  }
}
