// The GPipe paper's claims on translation, on sentences of Debian's packages: what does one model of many languages
// gain over models of one, what do the temperature, depth, batch and the recipe for deep models do, and how fast is a
// step?
//
//     translate --data FOLDER [--claim NAME] [--steps N] [--seeds N] [--languages N] [--tests N]
//         [--draw FOLDER]

#include "trial.hpp"

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/runtime/step/batch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../../examples/options.hpp"
#include "../bars.hpp"
#include "../measure.hpp"
#include "../peer.hpp"

namespace {

using namespace bench;

// The claims --------------------------------------------------------------------------------------------------------

struct variant {
  std::string name;
  outcome (*run)(const trial&, const corpus&);
  trial how;
  bool each_alone = false;  ///< a model for each tested language, with the same number of steps
};

struct claim {
  std::string name, question;
  std::vector<variant> variants;
};

using small = translator<2, 256, 2>;     // 2.2 million parameters
using wide = translator<2, 1152, 4>;     // 3.5 million
using deep = translator<6, 256, 2>;      // 3.5 million
using deepest = translator<12, 256, 2>;  // 5.5 million
using deepest_plain = translator<12, 256, 2, false>;

/// All claims. `steps` are those of the cheapest variant, 0: as many as take some two hours on two cores.
std::vector<claim> claims(std::uint64_t steps) {
  const auto or_else = [steps](std::uint64_t own) { return steps > 0 ? steps : own; };
  std::vector<claim> all;
  {
    const trial it{.steps = or_else(1000)};
    all.push_back({"languages",
                   "One model for all languages, or one for each? Equally large, with equally many steps.",
                   {{"one for each", run<small>, it, true}, {"one for all", run<small>, it}}});
  }
  {
    claim it{"temperature", "Languages are drawn by n^(1/T).", {}};
    for (const auto& [name, t] : {std::pair{"T = 1", 1.0}, {"T = 1.43", 1 / 0.7}, {"T = 5", 5.0}})
      it.variants.push_back({name, run<small>, {.temperature = t, .steps = or_else(4000)}});
    all.push_back(std::move(it));
  }
  {
    const trial it{.steps = or_else(3000)};
    all.push_back({"capacity",
                   "T(2, 256, 2) is small. T(2, 1152, 4) is wide and T(6, 256, 2) deep, with equally many parameters.",
                   {{"small", run<small>, it}, {"wide", run<wide>, it}, {"deep", run<deep>, it}}});
  }
  {
    claim it{"batch", "1, 4 and 16 times the tokens a step, at equal tokens.", {}};
    for (const int times : {1, 4, 16})
      it.variants.push_back({std::to_string(times) + "x",
                             run<small>,
                             {.micro_batches = times,
                              .steps = std::max<std::uint64_t>(1, or_else(8000) / static_cast<std::uint64_t>(times))}});
    all.push_back(std::move(it));
  }
  {
    claim it{"recipe", "T(12, 256, 2) with weights scaled by depth and clipped logits, and without, at two rates.", {}};
    for (const double rate : {2e-3, 1e-2}) {
      const trial how{.steps = or_else(700), .rate = rate};
      const std::string at = rate < 5e-3 ? ", rate 0.002" : ", rate 0.01";
      it.variants.push_back({"plain" + at, run<deepest_plain>, how});
      it.variants.push_back({"recipe" + at, run<deepest>, how});
    }
    all.push_back(std::move(it));
  }
  return all;
}

// A claim, measured -------------------------------------------------------------------------------------------------

/// Outcomes of a variant: of each seed, by language, or as "" of all languages.
using outcomes = std::vector<std::map<std::string, outcome>>;

std::vector<outcomes> measure(const claim& of, const corpus& from, int seeds) {
  std::vector<outcomes> found(of.variants.size(), outcomes(static_cast<std::size_t>(seeds)));
  std::vector<std::function<void()>> jobs;
  std::mutex printing;
  std::size_t done = 0;
  for (int seed = 1; seed <= seeds; ++seed)
    for (std::size_t v = 0; v < of.variants.size(); ++v) {
      const variant& it = of.variants[v];
      std::vector<std::string> alone{""};
      if (it.each_alone) {
        alone.clear();
        for (const tested_language& language : from.tested()) alone.push_back(language.name);
      }
      for (const std::string& language : alone) {
        outcome& into = found[v][static_cast<std::size_t>(seed - 1)][language];
        jobs.push_back([&, seed, language] {
          trial how = it.how;
          how.seed = static_cast<std::uint64_t>(seed);
          if (!language.empty()) how.languages = {language};
          const double seconds = timed([&] { into = it.run(how, from); });
          const std::lock_guard lock(printing);
          std::printf("%s %zu/%zu: %s%s%s, seed %d: loss of the training %.3f%s, %.0f s\n", of.name.c_str(), ++done,
                      jobs.size(), it.name.c_str(), language.empty() ? "" : ", ", language.c_str(), seed, into.loss,
                      into.diverged ? ", diverged" : "", seconds);
        });
      }
    }
  run_two_at_a_time(jobs);
  return found;
}

class_score score_of(const std::map<std::string, outcome>& of, const corpus& from, example::resource in) {
  return score(from, in, [&](const std::string& language) -> const outcome& {
    const auto own = of.find(language);
    return own != of.end() ? own->second : of.at("");
  });
}

std::string with_deviation(const spread& of, int digits) {
  char text[64];
  if (of.count > 1) std::snprintf(text, sizeof text, "%.*f +- %.*f", digits, of.mean, digits, of.deviation);
  else std::snprintf(text, sizeof text, "%.*f", digits, of.mean);
  return of.count == 0 ? "-" : text;
}

/// A table, a drawing and the figures of a claim.
void report(const claim& of, const std::vector<outcomes>& found, const corpus& from, const std::string& folder) {
  const std::size_t variants = of.variants.size();
  std::printf("\n%s\n\n| class |", of.question.c_str());
  for (const variant& it : of.variants) std::printf(" %s: chrF | loss |", it.name.c_str());
  std::printf(" the last over the first: chrF | less loss |\n|---|");
  for (std::size_t v = 0; v < 2 * variants + 2; ++v) std::printf("---|");
  std::printf("\n");
  std::vector<bar_group> groups;
  std::vector<std::pair<std::string, spread>> figures;
  double most = 0;
  for (int c = 0; c < 4; ++c) {
    const auto in = static_cast<example::resource>(c);
    std::vector<std::vector<double>> chrfs(variants), losses(variants);
    std::vector<double> gains, in_loss;
    for (std::size_t s = 0; s < found[0].size(); ++s) {
      std::vector<class_score> its;
      for (std::size_t v = 0; v < variants; ++v) its.push_back(score_of(found[v][s], from, in));
      for (std::size_t v = 0; v < variants; ++v)
        if (its[v].any) chrfs[v].push_back(its[v].chrf), losses[v].push_back(its[v].loss);
      if (!its.front().any || !its.back().any) continue;
      gains.push_back(its.back().chrf - its.front().chrf);
      in_loss.push_back(its.front().loss - its.back().loss);
    }
    bar_group group{example::resource_names[c], {}};
    std::printf("| %s |", example::resource_names[c]);
    for (std::size_t v = 0; v < variants; ++v) {
      group.bars.emplace_back(chrfs[v]);
      most = std::max(most, group.bars.back().mean + group.bars.back().deviation);
      std::printf(" %s | %s |", with_deviation(group.bars.back(), 1).c_str(),
                  with_deviation(spread(losses[v]), 3).c_str());
    }
    const spread gain(gains), less(in_loss);
    if (gain.count > 1)
      std::printf(" %+.2f, error %.2f | %+.3f, error %.3f |\n", gain.mean, gain.error(), less.mean, less.error());
    else std::printf(" %+.2f | %+.3f |\n", gain.mean, less.mean);
    groups.push_back(std::move(group));
    if (gain.count == 0) continue;
    figures.emplace_back(std::string("gain.") + example::resource_names[c], gain);
    figures.emplace_back(std::string("less_loss.") + example::resource_names[c], less);
  }
  std::vector<std::string> key;
  for (std::size_t v = 0; v < variants; ++v) {
    key.push_back(of.variants[v].name);
    int diverged = 0, all = 0;
    double loss = 0;
    for (const auto& by_language : found[v])
      for (const auto& [language, it] : by_language) diverged += it.diverged, ++all, loss += it.loss;
    std::printf("%s: %lu steps of %d positions a side, %d of %d trainings diverged, loss of the training %.3f\n",
                of.variants[v].name.c_str(), of.variants[v].how.steps, of.variants[v].how.micro_batches * 1024,
                diverged, all, loss / all);
  }
  for (auto& [name, gain] : figures) {
    std::replace(name.begin(), name.end(), ' ', '_');
    const char* const unit = name.starts_with("gain") ? "chrF" : "nats";
    result("translate." + of.name + "." + name, gain.mean, unit);
    if (gain.count > 1) result("translate." + of.name + "." + name + ".error", gain.error(), unit);
  }
  if (folder.empty()) return;
  const double top = 5 * std::ceil(most / 5 + 0.01);
  draw_bars(folder + "/" + of.name + ".svg", "chrF by how much there is of a language: " + of.name, key, groups,
            {.from = 0, .to = top, .tick = 5, .percent = 1, .unit = ""});
}

// A step beside torch's ---------------------------------------------------------------------------------------------

/// The translator of examples/translate.cpp, a step of 32 sentences of 64 pieces a side on two cores.
void compare_with_torch(int rounds) {
  using namespace gpipe;
  constexpr int length = 64, in_batch = 32;
  trainer<example::by_pieces<length>, adamw> training(
      plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = in_batch / 4}, adamw{}, {.max_grad_norm = 1});
  std::vector<std::int32_t> tokens(in_batch * length), counts(in_batch, length);
  for (std::uint32_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(4 + draw({}, i, 0).word[0] % (all_pieces - 4));
  const gpipe::batch all = gpipe::batch(in_batch)
                               .with("inputs", tokens)
                               .with("lengths", counts)
                               .with("targets", tokens)
                               .with("labels", tokens);
  std::vector<double> ours;
  std::map<std::string, std::vector<double>> theirs;
  rival torch("translate/translator.py", "");
  constexpr int steps = 3;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    const double own = timed([&] {
      for (int i = 0; i < steps; ++i) training.step(all);
    });
    if (round >= 0) ours.push_back(own / steps);
    for (const char* way : {"eager", "compiled"})
      if (const double its = torch.seconds(way, steps); round >= 0 && std::isfinite(its))
        theirs[way].push_back(its / steps);
  }
  std::printf("\na step of 32 sentences of 64 pieces: %.0f ms\n", 1000 * median(ours));
  result("translate.sentences", in_batch / median(ours), "1/s");
  for (const auto& [way, times] : theirs) {
    std::printf("torch, %s: %.0f ms\n", way.c_str(), 1000 * median(times));
    result("translate.over_torch." + way, median(times) / median(ours), "ratio");
  }
}

}  // namespace

int main(int count, char** words) try {
  std::string data, chosen = "all", folder;
  std::uint64_t steps = 0;
  int seeds = 3, languages = 4, tests = 60;
  std::vector<std::string> known{"all"};
  for (const claim& it : claims(1)) known.push_back(it.name);
  known.push_back("torch");
  std::string names;
  for (const std::string& it : known) names += (names.empty() ? "" : ", ") + it;
  if (!example::options("translate: the GPipe paper's claims on translation, on sentences of Debian's packages.")
           .text("--data", "FOLDER", data, "sentences; bench/run fetches them")
           .text("--claim", "NAME", chosen, "one of " + names)
           .number("--steps", steps, 0, INT32_MAX, "of the trainings; 0: some two hours a claim on two cores")
           .number("--seeds", seeds, 1, 100, "trainings of each kind")
           .number("--languages", languages, 1, 100, "of each class of resource, whose sentences are translated")
           .number("--tests", tests, 1, 10'000, "held-out sentences of a language, at most")
           .text("--draw", "FOLDER", folder, "write a drawing of each claim into this folder")
           .read(count, words))
    return 0;
  if (std::find(known.begin(), known.end(), chosen) == known.end())
    throw gpipe::error("there is no claim " + gpipe::detail::quoted(chosen), "choose one of " + names);
  print_environment();
  if (chosen == "torch" || chosen == "all") compare_with_torch(5);
  if (chosen == "torch") return 0;
  if (data.empty()) throw gpipe::error("there is no --data", "start it by bash bench/run translate");
  const corpus from(data, languages, tests);
  std::printf("%zu languages; tested:", from.languages().size());
  for (const tested_language& it : from.tested())
    std::printf(" %s (%zu of %zu)", it.name.c_str(), it.held_out.size(), from.languages().at(it.name).size());
  std::printf("\n");
  for (const claim& it : claims(steps))
    if (chosen == it.name || chosen == "all") report(it, measure(it, from, seeds), from, folder);
} catch (const std::exception& failure) {
  std::fprintf(stderr, "translate: %s\n", failure.what());
  return 1;
}
