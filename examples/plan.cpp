// Plans pipelines before anything runs: the paper's Transformers, a model of your own, or a table of layer costs of a
// model that is not written with gpipe. `plan best` chooses a configuration, and `plan largest` says how large a model
// fits. `plan measure` times this CPU for them. `plan sweep` compares choices. `plan export` writes a plan for another
// framework, and `plan check` checks a schedule of one.

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/plan.hpp>

#include "plan/best/print_best.hpp"
#include "plan/check/checked.hpp"
#include "plan/drawing.hpp"
#include "plan/export/exported.hpp"
#include "plan/largest_table.hpp"
#include "plan/measure/measured.hpp"
#include "plan/planner.hpp"
#include "plan/settings.hpp"
#include "plan/subject.hpp"
#include "plan/sweep/summary.hpp"
#include "plan/tables.hpp"
#include "plan/transformers.hpp"

using namespace gpipe;
using namespace example;

// A model of your own: put it here -----------------------------------------------------------------------------------

struct own_block : residual<layer_norm, linear<1024>, gelu, linear<256>> {};

struct own_model
    : model<input<float, 64>, linear<256>, repeat<12, own_block>, layer_norm, linear<10>, softmax_cross_entropy> {};

// The program --------------------------------------------------------------------------------------------------------

void run(const settings& chosen) {
  if (!chosen.svg.empty()) require_writable(chosen.svg);
  const bool from_costs = !chosen.costs.empty();
  const subject it =
      from_costs
          ? from_table(chosen.costs)
          : written_in_gpipe("own_model", network_of<own_model>,
                             {.micro_batches = chosen.how.micro_batches, .micro_batch_size = chosen.micro_batch_size});
  choice how = chosen.how;
  if (!chosen.stages_given) how.stages = std::min(how.stages, it.layers());
  const planned best = plan_for(it, how);
  if (!chosen.svg.empty()) draw(chosen.svg, it, how, best);
  if (chosen.plain) return print_plain(best);
  if (!from_costs) print_transformers();
  std::cout << (from_costs ? "" : "\n") << it.title << ": " << several(it.layers(), "layer") << "\n";
  print_stages(it, how, best);
  print_choices(it, how);
}

void run(const largest_settings& chosen) {
  print_largest(chosen, network_of<own_model>);
  if (chosen.brief) return;
  std::cout << '\n';
  print_amoebanets();
  std::cout << '\n';
  print_transformers();
}

void run(const best_settings& chosen) { print_best(chosen, network_of<own_model>); }
void run(const measure_settings& chosen) { print_measured(chosen); }
void run(const sweep_settings& chosen) { run_sweep(chosen, network_of<own_model>); }
void run(const export_settings& chosen) { print_export(chosen); }
void run(const check_settings& chosen) { print_check(chosen); }

/// Reads the command line behind the word of a subcommand, and runs it.
template <class Settings>
void read_and_run(int count, char** arguments) {
  if (Settings chosen; chosen.read(count, arguments)) run(chosen);
}

struct subcommand {
  const char *word, *help;
  void (*run)(int count, char** arguments);
};
constexpr subcommand subcommands[] = {
    {"best", "chooses stages, micro-batches, schedule and cut together", read_and_run<best_settings>},
    {"measure", "times this CPU, for plan best --machine", read_and_run<measure_settings>},
    {"sweep", "compares all combinations of choices", read_and_run<sweep_settings>},
    {"largest", "says how large a model fits", read_and_run<largest_settings>},
    {"export", "writes a plan for another framework", read_and_run<export_settings>},
    {"check", "checks a schedule of another framework", read_and_run<check_settings>}};

void run_command(int count, char** arguments) {
  const std::string_view word = count > 1 ? arguments[1] : "";
  std::vector<std::string> words;
  std::string list, help = "\n\nSubcommands, each with a --help of its own:";
  for (const subcommand& it : subcommands) {
    if (word == it.word) return it.run(count - 1, arguments + 1);
    words.emplace_back(it.word);
    list += (list.empty() ? "" : ", ") + words.back();
    help += "\n  plan " + words.back() + std::string(9 - words.back().size(), ' ') + it.help;
  }
  if (!word.empty() && !word.starts_with("-")) {
    const std::string meant = gpipe::detail::meant_by(word, words);
    throw error(
        "unknown subcommand " + gpipe::detail::quoted(word),
        (meant.empty() ? "" : "write plan " + meant + ", or ") + "choose one of " + list + ", or options alone");
  }
  if (settings chosen; chosen.read(count, arguments, help)) run(chosen);
}

int main(int count, char** arguments) {
  try {
    run_command(count, arguments);
    if (!std::cout.flush()) throw error("cannot write to the standard output", "check where the output goes");
  } catch (const std::exception& failure) {
    std::cerr << "plan: " << failure.what() << '\n';
    return 1;
  }
}
