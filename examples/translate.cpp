// Trains one model that translates many languages into English, in pipeline stages: the second task of the GPipe paper.
// The last two lines have the same bits for every number of stages: compare them.

#include <gpipe.hpp>
#include <gpipe/lengths.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "outputs.hpp"
#include "saving.hpp"
#include "translate/corpus.hpp"
#include "translate/model.hpp"
#include "translate/sentences.hpp"
#include "translate/sentences_by_length.hpp"

using namespace gpipe;
using example::all_pieces, example::by_pieces, example::corpus, example::sentence_pair;

// The model -----------------------------------------------------------------------------------------------------------

// A mini-batch has 128 sentences of 16 pieces, 64 of 32 or 32 of 64: its sentences are padded to its own length only.
constexpr int longest_text = 64, in_batch = 32;
using by_length = lengths<by_pieces, 16, 32, longest_text>;
using net = by_pieces<longest_text>;

// The command line ----------------------------------------------------------------------------------------------------

enum class optimizer_choice { adamw, adafactor };
enum class rate_choice { cosine, inverse_sqrt };

struct settings {
  plan_options plan{.stages = 2, .micro_batches = 4, .micro_batch_size = in_batch / 4};
  int steps = 1500, accumulate = 1, tests = 200, deadline = 60;
  optimizer_choice optimizer = optimizer_choice::adamw;
  rate_choice schedule = rate_choice::cosine;
  double minutes = 0, rate = 2e-3, temperature = 5;
  std::uint64_t seed = 1;
  std::string data, log, lines;
  example::save_settings save;
  bool quiet = false;

  bool read(int count, char** words) {
    if (!example::options(
             "translate: trains one model that translates many languages into English.\n"
             "The last two lines are chrF of held-out sentences, and a hash of the parameters' bits. They\n"
             "are the same for every number of stages.")
             .text("--data", "FOLDER", data, "sentences; examples/run fetches them")
             .number("--steps", steps, 0, INT32_MAX, "steps of the training")
             .decimal("--minutes", minutes, 0, 1e5, "as many steps as take this long; 0: --steps")
             .number("--accumulate", accumulate, 1, 100'000, "mini-batches, of 2,048 pieces a side, in a step")
             .choice("--optimizer", optimizer,
                     {{"adamw", optimizer_choice::adamw}, {"adafactor", optimizer_choice::adafactor}}, "")
             .choice("--rate-schedule", schedule,
                     {{"cosine", rate_choice::cosine}, {"inverse-sqrt", rate_choice::inverse_sqrt}},
                     "of the learning rate, behind a warm-up")
             .decimal("--rate", rate, 0, 1, "the highest learning rate")
             .decimal("--temperature", temperature, 0.01, 1e6, "languages are drawn by size^(1 / T)")
             .number("--stages", plan.stages, 1, layers_of<net>, "stages of the pipeline")
             .number("--micro-batches", plan.micro_batches, 1, in_batch, "micro-batches of a mini-batch")
             .number("--tests", tests, 4, 100'000, "held-out sentences that are translated")
             .number("--deadline", deadline, 1, 86400, "seconds without progress after which the program ends")
             .number("--seed", seed, 0, INT64_MAX, "seed of initial parameters and of the order of sentences")
             .text("--log", "FILE", log, "write loss, rate, norm and more of each step, to a .csv or a .jsonl file")
             .text("--save", "FOLDER", save.folder, "save a checkpoint at the end, and when the program is interrupted")
             .number("--save-every", save.every, 0, INT32_MAX, "and after each of this many steps; 0: do not")
             .text("--resume", "FOLDER", save.resumed, "go on from the newest checkpoint of a folder")
             .text("--translate", "FILE", lines,
                   "only translate its lines by the checkpoint of --resume; -: those read")
             .flag("--quiet", quiet, "print the last two lines only")
             .read(count, words))
      return false;
    save.read(count, words);
    if (data.empty())
      throw error("there is no --data", "give a folder, or start the program by examples/run translate");
    if (!lines.empty() && save.resumed.empty())
      throw error("option --translate: " + detail::quoted(lines) + " without --resume", "give --resume FOLDER");
    if (in_batch % plan.micro_batches != 0)
      throw error("--micro-batches is " + std::to_string(plan.micro_batches),
                  "choose a divisor of " + std::to_string(in_batch));
    plan.micro_batch_size = in_batch / plan.micro_batches;
    return true;
  }
};

// Translation ---------------------------------------------------------------------------------------------------------

/// Prints a translation of each line of a file, which is the best of a beam search.
int translate_lines(const settings& chosen) {
  const example::vocabulary words(chosen.data);
  predictor<net> trained(plan_options{.micro_batch_size = 1});
  trained.load(chosen.save.resumed);
  const generator<net> from(trained);
  std::ifstream file;
  if (chosen.lines != "-") file.open(chosen.lines);
  if (!file) throw error("option --translate: the file cannot be read", "give another one", {.file = chosen.lines});
  std::istream& in = chosen.lines == "-" ? std::cin : file;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::int32_t> source = words.pieces(line);
    if (++number; source.size() > longest_text) {
      std::cerr << "translate: line " << number << " has " << source.size() << " pieces; the first " << longest_text
                << " are translated" << std::endl;
      source.resize(longest_text);
    }
    std::vector<continuation> found(1);
    if (!source.empty())
      found = from.beam_search({example::begin_of_text}, {.tokens = longest_text,
                                                          .beams = 4,
                                                          .end = example::end_of_text,
                                                          .length_power = 0.6,
                                                          .texts = 1,
                                                          .source = source});
    std::cout << words.text(found[0].tokens) << std::endl;
  }
  return 0;
}

struct score {
  double chrf = 0, bleu = 0;
};
score score_of(const std::vector<std::string>& texts, const std::vector<std::string>& right) {
  return {chrf(texts, right), bleu(texts, right)};
}

/// A row for each class of resource and each kind of text: the model, the source as it stands, and the nearest training
/// sentence.
void print_scores(std::ostream& out, const corpus& from, const std::vector<std::string>& translated) {
  const example::nearest_sentence memory(from.all);
  std::vector<std::string> nearest;
  for (const sentence_pair* const it : from.chosen) nearest.push_back(memory.english(*it));
  const auto row = [&](const char* name, auto is_in) {
    std::vector<std::string> ours, source, of_memory, right;
    for (std::size_t i = 0; i < from.chosen.size(); ++i) {
      if (!is_in(i)) continue;
      ours.push_back(translated[i]);
      source.push_back(from.chosen[i]->source);
      of_memory.push_back(nearest[i]);
      right.push_back(from.chosen[i]->english);
    }
    if (ours.empty()) return;
    out << std::left << std::setw(10) << name << std::right << std::setw(11) << ours.size() << std::fixed
        << std::setprecision(1);
    for (const auto* const texts : {&ours, &source, &of_memory}) {
      const score it = score_of(*texts, right);
      out << std::setw(14) << it.chrf << std::setw(6) << it.bleu;
    }
    out << '\n';
  };
  out << "\nresource    sentences     model: chrF, BLEU      source      nearest training sentence\n";
  for (int c = 0; c < 4; ++c)
    row(example::resource_names[c],
        [&](std::size_t i) { return from.classes[i] == static_cast<example::resource>(c); });
  row("prose", [&](std::size_t i) { return from.chosen[i]->prose; });
  row("messages", [&](std::size_t i) { return !from.chosen[i]->prose; });
  out << '\n';
  for (std::size_t i = 0; i < 5; ++i) {
    const std::size_t s = i * from.chosen.size() / 5;
    out << from.chosen[s]->language << "  " << from.chosen[s]->source << "\n    right  " << from.chosen[s]->english
        << "\n    model  " << translated[s] << '\n';
  }
  out << '\n';
}

// The training --------------------------------------------------------------------------------------------------------

/// The rate rises to --rate in a tenth of the steps, at most 400, and falls as --rate-schedule says.
rate_schedule schedule_of(rate_choice chosen, std::uint64_t steps) {
  const std::uint64_t warm = std::min<std::uint64_t>(400, steps / 10 + 1);
  if (chosen == rate_choice::cosine) return warm_up{warm, cosine{steps, 0.05}};
  return [=](std::uint64_t step) {  // 1 at its highest
    return inverse_square_root{.warm_up = warm}(step)*std::sqrt(static_cast<double>(warm));
  };
}

template <class Optimizer>
int train(settings chosen, const Optimizer& optimizer) {
  example::require_outputs(chosen.data, {chosen.log}, chosen.save.folder);
  std::ostream none(nullptr);
  std::ostream& out = chosen.quiet ? none : std::cout;
  const example::vocabulary words(chosen.data);
  if (words.size() > all_pieces)
    throw error(
        "there are " + std::to_string(words.size()) + " pieces, and the model has " + std::to_string(all_pieces),
        "fetch the sentences again", {.file = chosen.data + "/pieces.txt"});
  const corpus from(chosen.data, chosen.tests, all_pieces, longest_text);
  const example::sentences_by_length sentences(from.languages,
                                               {.lengths = {by_length::values.begin(), by_length::values.end()},
                                                .tokens = in_batch * longest_text,
                                                .temperature = chosen.temperature,
                                                .seed = chosen.seed});
  out << from.all.size() << " sentences of " << from.languages.size() << " languages, " << network_of<net>.parameters()
      << " parameters\n";

  const auto trainer_of = [&](std::uint64_t steps) {
    return trainer<by_length, Optimizer>{chosen.plan,
                                         optimizer,
                                         {.seed = chosen.seed,
                                          .learning_rate_schedule = schedule_of(chosen.schedule, steps),
                                          .max_grad_norm = 1,
                                          .groups = {no_decay_for_biases_and_norms()},
                                          .deadline = std::chrono::seconds(chosen.deadline),
                                          .on_deadline = deadline_action::abort}};
  };
  if (chosen.minutes > 0) {
    auto trial = trainer_of(1);
    using clock = std::chrono::steady_clock;
    std::vector<double> times;
    auto last = clock::now();
    fit(trial, sentences, {.accumulate = chosen.accumulate}, [&](const fit_progress&) {
      const auto now = clock::now();
      times.push_back(std::chrono::duration<double>(now - std::exchange(last, now)).count());
      return times.size() < 12 ? loop_control::go : loop_control::stop;
    });
    std::sort(times.begin(), times.end());
    chosen.steps = std::max(1, static_cast<int>(0.95 * 60 * chosen.minutes / times[times.size() / 2]));
    out << "a step takes " << std::setprecision(3) << 1000 * times[times.size() / 2] << " ms: --steps " << chosen.steps
        << '\n';
  }

  const auto steps = static_cast<std::uint64_t>(chosen.steps);
  auto training = trainer_of(steps);
  fit_options epochs{.seed = chosen.seed, .accumulate = chosen.accumulate};
  example::resume(training, chosen.save, epochs, out);
  const auto in_epoch = static_cast<std::uint64_t>((sentences.own().count + chosen.accumulate - 1) / chosen.accumulate);
  const std::uint64_t left = steps - std::min(steps, training.steps());
  epochs.epochs = static_cast<int>(epochs.first.epoch + 2 + left / in_epoch);
  out << describe(training.net(), training.plan());

  progress line(out, chosen.quiet ? verbosity::quiet : verbosity_for(stdout));
  std::optional<log_file> log;
  if (!chosen.log.empty()) log.emplace(chosen.log);
  example::saver save(training, chosen.save, epochs.first, nullptr);
  if (training.steps() < steps)
    fit(training, sentences, epochs, [&](const fit_progress& now) {
      if (log) (*log)(now);
      line.step(now);
      const bool last = training.steps() >= steps;
      if (last || training.steps() % 500 == 0)
        out << "\nstep " << training.steps() << ": loss " << std::setprecision(4) << now.step_loss << '\n';
      return save(now) == loop_control::stop || last ? loop_control::stop : loop_control::go;
    });
  if (const int code = save.finish(); code != 0) return code;

  std::vector<std::string> translated, right;
  const generator<net> writer(training);
  for (const sentence_pair* const it : from.chosen) {
    const generation_options how{.tokens = longest_text, .end = example::end_of_text, .source = it->source_pieces};
    translated.push_back(words.text(writer.generate({example::begin_of_text}, how)));
    right.push_back(it->english);
  }
  if (!chosen.quiet) print_scores(out, from, translated);
  std::cout << "held-out chrF " << std::fixed << std::setprecision(2) << chrf(translated, right) << '\n'
            << "parameters " << std::hex << std::setw(16) << std::setfill('0') << training.parameter_hash() << '\n';
  return 0;
}

int train(const settings& chosen) {
  if (chosen.optimizer == optimizer_choice::adamw)
    return train(chosen, adamw{.learning_rate = chosen.rate, .beta2 = 0.98, .weight_decay = 0.01});
  return train(chosen, adafactor{.learning_rate = chosen.rate, .relative_step = false, .scale_parameter = false});
}

int main(int count, char** words) {
  try {
    settings chosen;
    const int code = !chosen.read(count, words) ? 0 : chosen.lines.empty() ? train(chosen) : translate_lines(chosen);
    if (!std::cout.flush()) throw error("cannot write to the standard output", "check where the output goes");
    return code;
  } catch (const std::exception& failure) {
    std::cerr << "translate: " << failure.what() << std::endl;
    return 1;
  }
}
