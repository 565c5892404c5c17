// Plans pipelines before anything runs: the paper's Transformers, a model of your own, or a table of layer costs of a
// model that is not written with gpipe. `plan best` chooses a configuration, and `plan largest` says how large a model
// fits. `plan sweep` compares choices. `plan export` writes a plan for another framework, and `plan check` checks a
// schedule of one.

#include <algorithm>
#include <iostream>
#include <string_view>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/plan.hpp>

#include "plan/best/print_best.hpp"
#include "plan/check/checked.hpp"
#include "plan/drawing.hpp"
#include "plan/export/exported.hpp"
#include "plan/largest_table.hpp"
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
void run(const sweep_settings& chosen) { run_sweep(chosen, network_of<own_model>); }
void run(const export_settings& chosen) { print_export(chosen); }
void run(const check_settings& chosen) { print_check(chosen); }

/// Reads the command line behind the word of a subcommand, and runs it.
template <class Settings>
void read_and_run(int count, char** arguments) {
  if (Settings chosen; chosen.read(count, arguments)) run(chosen);
}

int main(int count, char** arguments) {
  try {
    const std::string_view word = count > 1 ? arguments[1] : "";
    if (word == "largest") read_and_run<largest_settings>(count - 1, arguments + 1);
    else if (word == "best") read_and_run<best_settings>(count - 1, arguments + 1);
    else if (word == "sweep") read_and_run<sweep_settings>(count - 1, arguments + 1);
    else if (word == "export") read_and_run<export_settings>(count - 1, arguments + 1);
    else if (word == "check") read_and_run<check_settings>(count - 1, arguments + 1);
    else read_and_run<settings>(count, arguments);
    if (!std::cout.flush()) throw error("cannot write to the standard output", "check where the output goes");
  } catch (const std::exception& failure) {
    std::cerr << "plan: " << failure.what() << '\n';
    return 1;
  }
}
