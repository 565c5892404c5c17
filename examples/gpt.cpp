// Trains a language model on the bytes of a text, in pipeline stages, and lets it write.
// The last two lines have the same bits for every number of stages: compare them.

#include <gpipe.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/record/file/read_file.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "options.hpp"
#include "outputs.hpp"
#include "processes.hpp"
#include "saving.hpp"

using namespace gpipe;

// The model -----------------------------------------------------------------------------------------------------------

// GPT-2 with fewer and narrower blocks. A token is a byte.
template <int Context, int Width, int Heads, int Blocks>
using gpt = gpt2_with<Blocks, Width, gpt2_options{.heads = Heads, .tokens = Context, .vocabulary = 256}>;

using small_gpt = gpt<128, 128, 4, 4>;
using medium_gpt = gpt<256, 256, 8, 6>;
static_assert(network_of<small_gpt>.parameters() == 842'496);
static_assert(network_of<medium_gpt>.parameters() == 4'870'144);

// The command line ----------------------------------------------------------------------------------------------------

enum class size { small, medium };

// change: a generation option
// change: a command-line option
struct settings {
  plan_options plan{.stages = 2, .micro_batches = 8, .micro_batch_size = 4};
  size model = size::small;
  int steps = 2000, batch = 32, sample_every = 500, generate = 200, deadline = 60;
  double minutes = 0, rate = 2e-3, temperature = 0.8;
  std::uint64_t seed = 1;
  std::string text, prompt = "And God said", log, tensorboard;
  example::processor device = example::processor::host;
  example::transport transport = example::transport::threads;
  example::save_settings save;
  bool summary = false, graph = false, quiet = false;

  int workers() const {
    const schedule_choice schedule = plan.chosen_schedule();
    return schedule.admits(plan.stages, plan.micro_batches) ? plan.replicas * schedule.workers(plan.stages) : 1;
  }

  bool read(int count, char** words) {
    std::vector<std::pair<std::string, schedule_kind>> schedules;
    for (const schedule_kind kind : schedule_kinds)
      if (schedule_choice(kind).trains) schedules.emplace_back(name_of(kind), kind);
    schedules.emplace_back(name_of(schedule_kind::searched), schedule_kind::searched);
    if (!example::options(
             "gpt: trains a language model on the bytes of a text, in a pipeline of stages, and lets it write.\n"
             "The last two lines are the bits per byte of the last twentieth of the text, which is held out, and a\n"
             "hash of the parameters' bits. They are the same for every number of stages, schedule and recompute mode.")
             .text("--text", "FILE", text, "what to learn; examples/run gives the King James Bible")
             .choice("--model", model, {{"small", size::small}, {"medium", size::medium}},
                     "small: 128 bytes of context, width 128, 4 heads, 4 blocks;\n"
                     "                            medium: 256, 256, 8 and 6")
             .number("--steps", steps, 0, INT32_MAX, "steps of the training")
             .decimal("--minutes", minutes, 0, 1e5, "as many steps as take this long; 0: --steps")
             .number("--batch", batch, 1, 65536, "sequences in a mini-batch")
             .decimal("--rate", rate, 0, 1, "the highest learning rate")
             .number("--stages", plan.stages, 1, layers_of<small_gpt>, "stages of the pipeline")
             .number("--micro-batches", plan.micro_batches, 1, 4096, "micro-batches of a mini-batch in each replica")
             .choice("--schedule", plan.schedule, schedules, "the order of work")
             .number("--workers", plan.workers, 0, layers_of<small_gpt>,
                     "workers of each replica; 0: as many as the schedule has")
             .number("--replicas", plan.replicas, 1, 256, "copies of the pipeline")
             // change: a recompute mode
             .choice("--recompute", plan.recompute,
                     {{"always", recompute_mode::always},
                      {"except-last", recompute_mode::except_last},
                      {"as-needed", recompute_mode::as_needed},
                      {"never", recompute_mode::never}},
                     "which micro-batches run forward again before backward")
             .recompute_layers(plan)
             .choice("--device", device, {{"host", example::processor::host}, {"cuda", example::processor::cuda}},
                     "where the stages compute: on the CPU, or on the machine's GPUs")
             .choice("--precision", plan.precision, {{"float32", precision::float32}, {"bf16", precision::bf16}},
                     "precision of activations, their gradients and matrix products")
             .bytes("--memory-limit", plan.memory_limit, "limit of every stage, such as 64MiB")
             // change: a transport
             .choice("--transport", transport,
                     {{"threads", example::transport::threads}, {"mpi", example::transport::mpi}},
                     "workers are threads, or processes that mpirun starts")
             .flag("--graph", graph, "launch each step from CUDA graphs: with --device cuda, in threads")
             .number("--deadline", deadline, 1, 86400, "seconds without progress after which the program ends")
             .number("--seed", seed, 0, INT64_MAX, "seed of initial parameters, shuffling and samples")
             .number("--sample-every", sample_every, 0, INT32_MAX,
                     "steps between two samples of text and held-out figures; 0: none")
             .text("--prompt", "TEXT", prompt, "what samples begin with")
             .number("--generate", generate, 0, 1 << 20, "bytes of a sample")
             .decimal("--temperature", temperature, 0, 100, "of samples; 0: the most likely byte, always")
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
    if (text.empty()) throw error("there is no --text", "give a file, or start the program by examples/run gpt");
    if (prompt.empty()) throw error("option --prompt is empty", "give at least a byte");
    return true;
  }
};

// The data ------------------------------------------------------------------------------------------------------------

struct text_sets {
  dataset train, test;
};

/// Sequences of `context` bytes, one behind the other. Each byte's label is the next byte.
dataset sequences(const std::string& text, std::size_t first, std::size_t last, std::size_t context) {
  std::vector<std::int32_t> inputs, labels;
  for (; first + context < last; first += context)
    for (std::size_t i = first; i < first + context; ++i) {
      inputs.push_back(static_cast<unsigned char>(text[i]));
      labels.push_back(static_cast<unsigned char>(text[i + 1]));
    }
  return dataset().with("inputs", context, inputs).with("labels", context, labels);
}

text_sets read_text(const std::string& path, std::size_t context) {
  const std::string text = read_file(path);
  const std::size_t train = text.size() / 20 * 19;
  if (text.size() - train < 2 * context)
    throw error("the text has " + std::to_string(text.size()) + " bytes, too few to hold out a twentieth",
                "give at least " + std::to_string(41 * context), {.file = path});
  return {sequences(text, 0, train, context), sequences(text, train, text.size(), context)};
}

// Generation ----------------------------------------------------------------------------------------------------------

/// Writes on from the prompt. A text that is longer than the context goes on from its second half.
template <class Net>
std::string sample(const generator<Net>& from, const settings& chosen) {
  std::vector<std::int32_t> text;
  for (const char c : chosen.prompt) text.push_back(static_cast<unsigned char>(c));
  const auto room = static_cast<std::size_t>(from.max_tokens());
  for (int left = chosen.generate; left > 0;) {
    const std::size_t kept = std::min(text.size(), room / 2);
    const std::vector<std::int32_t> end(text.end() - static_cast<std::ptrdiff_t>(kept), text.end());
    const int now = std::min(left, static_cast<int>(room - kept));
    const auto more = from.generate(end, {.tokens = now, .temperature = chosen.temperature, .seed = chosen.seed});
    text.insert(text.end(), more.begin(), more.end());
    left -= now;
  }
  std::string bytes;
  for (const std::int32_t token : text) bytes += static_cast<char>(token);
  return bytes;
}

// The training --------------------------------------------------------------------------------------------------------

/// The seconds of a step, by a trial of a few.
template <class Net, class Device>
double step_seconds(const settings& chosen, const dataset& data) {
  trainer<both_precisions<Net>, adamw, Device> trial{chosen.plan, adamw{}, {.seed = chosen.seed}};
  using clock = std::chrono::steady_clock;
  std::vector<double> times;
  auto batches = data.shuffled(chosen.batch, chosen.seed, 0);
  for (const batch& part : batches) {
    const auto begin = clock::now();
    trial.step(part);
    times.push_back(std::chrono::duration<double>(clock::now() - begin).count());
    if (times.size() == 20) break;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double bits(double loss) { return loss / std::numbers::ln2; }

// In a job of processes every process makes the same calls, because each has a part of the answer; rank 0 prints.
template <class Net, class Device>
int train(settings chosen, process_group* job) {
  const bool prints = job == nullptr || job->rank() == 0;
  if (prints) example::require_outputs(chosen.text, {chosen.log}, chosen.save.folder);
  const text_sets data = read_text(chosen.text, Net::entering::size);
  const int parts = chosen.plan.all_micro_batches();
  chosen.batch = std::min(chosen.batch, data.train.samples());
  chosen.plan.micro_batch_size = (chosen.batch + parts - 1) / parts;
  std::ostream none(nullptr);
  std::ostream& out = chosen.quiet || !prints ? none : std::cout;
  if (chosen.minutes > 0) {
    if (job != nullptr) throw error("option --minutes in a job of processes", "give --steps");
    const double seconds = step_seconds<Net, Device>(chosen, data.train);
    chosen.steps = std::max(1, static_cast<int>(0.95 * 60 * chosen.minutes / seconds));
    out << "a step takes " << std::setprecision(3) << 1000 * seconds << " ms: --steps " << chosen.steps << '\n';
  }

  const auto steps = static_cast<std::uint64_t>(chosen.steps), warm = std::min<std::uint64_t>(100, steps / 10 + 1);
  trainer<both_precisions<Net>, adamw, Device> training{
      chosen.plan,
      adamw{.learning_rate = chosen.rate, .beta2 = 0.99, .weight_decay = 0.1},
      {.seed = chosen.seed,
       .learning_rate_schedule = warm_up{warm, cosine{steps, 0.05}},
       .max_grad_norm = 1,
       .groups = {no_decay_for_biases_and_norms()},
       .deadline = std::chrono::seconds(chosen.deadline),
       .on_deadline = deadline_action::abort,
       .graph = chosen.graph,
       .job = job}};
  fit_options epochs{.batch = chosen.batch, .seed = chosen.seed};
  example::resume(training, chosen.save, epochs, out);
  // As many as the steps that are left can take; --steps ends them.
  const std::uint64_t left = steps - std::min(steps, training.steps());
  const auto in_an_epoch = static_cast<std::uint64_t>(epochs.steps_per_epoch(data.train.samples()));
  epochs.epochs = static_cast<int>(
      std::min<std::uint64_t>(INT32_MAX, epochs.first.epoch + left / in_an_epoch + (epochs.first.batch > 0 ? 2 : 1)));
  if (chosen.summary) out << summary(training);
  out << describe(training.net(), training.plan());

  generator<Net> writer(training);
  const auto write_sample = [&] {
    writer.refresh(training);
    if (chosen.generate > 0) out << "----\n" << sample(writer, chosen) << "\n----\n" << std::flush;
  };
  std::vector<int> few;  // held-out sequences, for a look in between
  for (int i = 0; i < data.test.samples(); i += 8) few.push_back(i);
  const dataset some = data.test.select(few);

  const verbosity how_shown = job == nullptr ? verbosity_for(stdout) : verbosity::lines;
  progress line(out, chosen.quiet || !prints ? verbosity::quiet : how_shown);
  std::optional<log_file> log;
  std::optional<event_folder> events;
  if (prints && !chosen.log.empty()) log.emplace(chosen.log);
  if (prints && !chosen.tensorboard.empty()) events.emplace(chosen.tensorboard);
  example::saver save(training, chosen.save, epochs.first, job);
  if (training.steps() < steps)
    fit(training, data.train, epochs, [&](const fit_progress& now) {
      if (log) (*log)(now);
      if (events) (*events)(now);
      if (now.step == now.steps) line.epoch(now);
      else line.step(now);
      const bool last = training.steps() >= steps;
      if (!last && chosen.sample_every > 0 && training.steps() % static_cast<std::uint64_t>(chosen.sample_every) == 0) {
        const double held_out = bits(training.evaluate(some).loss);
        out << "\nstep " << training.steps() << ": " << std::setprecision(4) << bits(now.step_loss)
            << " bits per byte, held out " << held_out << '\n';
        write_sample();
      }
      return save(now) == loop_control::stop || last ? loop_control::stop : loop_control::go;
    });
  if (const int code = save.finish(); code != 0) return code;
  write_sample();
  const double held_out = bits(training.evaluate(data.test).loss);
  const std::uint64_t hash = training.parameter_hash();
  if (!prints) return 0;
  std::cout << "held-out bits per byte " << std::fixed << std::setprecision(4) << held_out << '\n'
            << "parameters " << std::hex << std::setw(16) << std::setfill('0') << hash << '\n';
  return 0;
}

int main(int count, char** words) {
  std::unique_ptr<process_group> job;  // destroyed last: after the error is printed
  int code = 0;
  try {
    settings chosen;
    if (chosen.read(count, words)) {
      job = example::join(chosen.transport, chosen.workers(), std::chrono::seconds(chosen.deadline), count, words);
      code = example::run_on(chosen.device, job.get(), [&](auto device, process_group* group) {
        using on = typename decltype(device)::type;
        return chosen.model == size::small ? train<small_gpt, on>(chosen, group) : train<medium_gpt, on>(chosen, group);
      });
    }
    if (!std::cout.flush()) throw error("cannot write to the standard output", "check where the output goes");
    return code;
  } catch (const std::exception& failure) {
    if (example::prints_error(job.get(), failure)) std::cerr << "gpt: " << failure.what() << std::endl;
    return 1;
  }
}
