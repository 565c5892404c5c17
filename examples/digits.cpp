// Trains a residual network on real handwritten digits, in pipeline stages chosen on the command line.
// The result has the same bits for every number of stages: compare the last two lines of output.

#include <gpipe.hpp>
#include <gpipe/tools/search/schedule_file.hpp>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "devices.hpp"
#include "options.hpp"
#include "outputs.hpp"
#include "processes.hpp"
#include "saving.hpp"

using namespace gpipe;

// The model -----------------------------------------------------------------------------------------------------------

struct block : residual<layer_norm, linear<256>, gelu, linear<64>, dropout<10>> {};

struct net : model<input<float, 64>, dropout<10>, linear<64>, repeat<16, block>, layer_norm, linear<10>,
                   softmax_cross_entropy> {};

// The compiler checks the default plan.
#if defined(GPIPE_DIGITS_PROFILE)
#include GPIPE_DIGITS_PROFILE  // a file that --profile wrote, with the struct `measured`
using default_plan = plan<net, stages<4>, micro_batches<8>, micro_batch_size<8>, profiled<measured>>;
#else
using default_plan = plan<net, stages<4>, micro_batches<8>, micro_batch_size<8>>;
#endif
static_assert(default_plan::parameters() == 536'394);
static_assert(default_plan::bubble() < 0.28);
static_assert(require_fits<default_plan, 8_MiB>());

// The command line ----------------------------------------------------------------------------------------------------

/// The schedules that train, with their names.
std::vector<std::pair<std::string, schedule_kind>> schedules() {
  std::vector<std::pair<std::string, schedule_kind>> found;
  for (const schedule_kind kind : schedule_kinds)
    if (schedule_choice(kind).trains) found.emplace_back(name_of(kind), kind);
  found.emplace_back(name_of(schedule_kind::searched), schedule_kind::searched);
  return found;
}

// change: a command-line option
struct settings {
  plan_options plan = default_plan::options;
  int batch = default_plan::M * default_plan::B;
  int epochs = 30;
  std::uint64_t seed = 1;
  std::int64_t link_bytes_per_s = 0;
  int deadline = 60, processes = 0;
  std::string data = GPIPE_EXAMPLES_DATA "/digits.csv";
  std::string schedule_file, trace, timeline, breakdown, profile, log, tensorboard;
  std::shared_ptr<const file_schedule> custom;
  bool layers = false, summary = false, graph = false, bind = false;
  example::processor device = example::processor::host;
  example::transport transport = example::transport::threads;
  example::save_settings save;
  bool quiet = false;

  /// Workers of the plan; 1 if the plan is invalid, which is an error later.
  int workers() const {
    const schedule_choice schedule = plan.chosen_schedule();
    return schedule.admits(plan.stages, plan.micro_batches) ? plan.replicas * schedule.workers(plan.stages) : 1;
  }

  bool read(int count, char** words) {
    if (!example::options(
             "digits: trains a residual network on 8 x 8 images of handwritten digits, in a pipeline of stages.\n"
             "The last two lines are the held-out accuracy and a hash of the parameters' bits. They are the same for\n"
             "every number of stages, schedule, recompute mode and memory limit, in threads or in processes.\n"
             "(Another precision or another number of replicas gives other bits: it rounds or sums differently.)")
             .number("--stages", plan.stages, 1, layers_of<net>, "stages of the pipeline, one or more a worker")
             .number("--micro-batches", plan.micro_batches, 1, 4096, "micro-batches of a mini-batch in each replica")
             .number("--batch", batch, 1, 65536, "samples in a mini-batch")
             .number("--epochs", epochs, 1, 100000, "passes over the training samples")
             .choice("--device", device, {{"host", example::processor::host}, {"cuda", example::processor::cuda}},
                     "where the stages compute: on the CPU, or on the machine's GPUs")
             .choice("--precision", plan.precision, {{"float32", precision::float32}, {"bf16", precision::bf16}},
                     "precision of activations, their gradients and matrix products")
             .choice("--schedule", plan.schedule, schedules(), "the order of work")
             .text("--schedule-file", "FILE.csv", schedule_file,
                   "the same from a file: a row of cells such as 0F3 for each worker")
             .number("--chunks", plan.chunks, 1, layers_of<net>,
                     "stages a worker, of the interleaved and looped schedules; of a searched one 1 or 2")
             .number("--workers", plan.workers, 0, layers_of<net>,
                     "threads or processes; each runs neighbouring stages; 0: as many\n"
                     "                            as the schedule has work for, or as there are processes")
             .number("--replicas", plan.replicas, 1, 256,
                     "copies of the pipeline, each with its own workers and part of a mini-batch")
             // change: a recompute mode
             .choice("--recompute", plan.recompute,
                     {{"always", recompute_mode::always},
                      {"except-last", recompute_mode::except_last},
                      {"as-needed", recompute_mode::as_needed},
                      {"never", recompute_mode::never}},
                     "which micro-batches run forward again before backward")
             .number("--group-gradients", plan.group_gradients, 0, max_gradient_group,
                     "micro-batches whose parameter gradients a stage computes together,\n"
                     "                            with fill-drain and without recompute; 0: as many as pay off\n"
                     "                            and fit")
             .bytes("--memory-limit", plan.memory_limit, "limit of every stage, such as 4MiB: the cut obeys it")
             .plan(plan,
                   {"micro_batch_size", "optimizer_moments", "separate_memory", "cost_transfers", "cost_parameters"})
             .number("--link-bytes-per-s", link_bytes_per_s, 0, INT64_MAX / 1000,
                     "emulate links of this speed, and cut for them; 0: do not")
             // change: a transport
             .choice("--transport", transport,
                     {{"threads", example::transport::threads}, {"mpi", example::transport::mpi}},
                     "workers are threads, or processes that mpirun starts")
             .number("--processes", processes, 0, 4096,
                     "--transport mpi with this many processes, each with some of the\n"
                     "                            --workers; 0: as many as workers. Behind bash examples/run,\n"
                     "                            --relaunch N starts again without one that is lost")
             .flag("--bind", bind, "each worker has cores of its own, and its memory beside them")
             .flag("--graph", graph, "launch each step from CUDA graphs: with --device cuda, in threads")
             .number("--deadline", deadline, 1, 86400,
                     "seconds without progress after which the program ends, and says\n"
                     "                            which layer it was in")
             .number("--seed", seed, 0, INT64_MAX, "seed of initial parameters, dropout and shuffling")
             .text("--data", "FILE", data, "lines of 64 numbers and a label, comma-separated")
             .text("--log", "FILE", log, "write loss, rate, norm and more of each step, to a .csv or a .jsonl file")
             .text("--tensorboard", "FOLDER", tensorboard, "the same for TensorBoard, to a new file in the folder")
             .text("--trace", "FILE.json", trace, "write all actions of all workers, for ui.perfetto.dev")
             .text("--timeline", "FILE.svg", timeline, "draw the least disturbed of the last 20 steps")
             .text("--breakdown", "FILE.svg", breakdown, "draw where the time of a step went")
             .text("--profile", "FILE.hpp", profile,
                   "write the measured time of each layer; a build with\n"
                   "                            GPIPE_DIGITS_PROFILE plans by it")
             .flag("--layers", layers,
                   "print the time of each layer, its share of a core's peak, and\n"
                   "                            advice for the slowest")
             .flag("--summary", summary, "print a line for each layer: path, type, output, parameters, stage")
             .text("--save", "FOLDER", save.folder, "save a checkpoint at the end, and when the program is interrupted")
             .number("--save-every", save.every, 0, INT32_MAX, "and after each of this many steps; 0: do not")
             .text("--resume", "FOLDER", save.resumed, "go on from the newest checkpoint of a folder")
             .flag("--quiet", quiet, "print the last two lines only")
             .read(count, words))
      return false;
    save.read(count, words);
    example::use_processes(processes, plan, transport);
    if (!schedule_file.empty()) {
      custom = std::make_shared<const file_schedule>(schedule_file);
      plan = custom->chosen_in(plan);
    }
    plan.cost_transfers = link_bytes_per_s > 0;
    if (plan.cost_transfers) plan.device.link_bytes_per_second = link_bytes_per_s, plan.device.link_latency_ns = 0;
    return true;
  }
};

// The data ------------------------------------------------------------------------------------------------------------

struct digit_sets {
  dataset train, test;  // every fifth row is held out
};

digit_sets read_digits(const std::string& path) {
  dataset all = read_csv(path, 64, 10);
  for (float& x : all.field<float>("inputs")) x = x / 8 - 1;  // [-1, 1]
  std::vector<int> rows[2];
  for (int i = 0; i < all.samples(); ++i) rows[i % 5 == 4].push_back(i);
  if (rows[1].empty())
    throw error("has " + std::to_string(all.samples()) + " rows, too few to hold any out", "give at least 5",
                {.file = path});
  return {all.select(rows[0]), all.select(rows[1])};
}

// The training --------------------------------------------------------------------------------------------------------

// In a job of processes every process makes the same calls, because each has a part of the answer; rank 0 prints.
template <class Device>
int train(settings chosen, process_group* job) {
  const bool prints = job == nullptr || job->rank() == 0;
  if (prints)
    example::require_outputs(chosen.data, {chosen.trace, chosen.timeline, chosen.breakdown, chosen.profile, chosen.log},
                             chosen.save.folder);
  const digit_sets data = read_digits(chosen.data);
  chosen.batch = std::min(chosen.batch, data.train.samples());
  const int parts = chosen.plan.all_micro_batches();
  chosen.plan.micro_batch_size = (chosen.batch + parts - 1) / parts;

  fit_options epochs{.epochs = chosen.epochs, .batch = chosen.batch, .seed = chosen.seed};
  const auto steps = static_cast<std::uint64_t>(epochs.steps_per_epoch(data.train.samples())) *
                     static_cast<std::uint64_t>(chosen.epochs);
  const auto cores = example::cores_of_workers(chosen.bind);
  trainer<both_precisions<net>, adamw, Device> training{
      chosen.plan,
      adamw{.learning_rate = 3e-3},
      {.seed = chosen.seed,
       .learning_rate_schedule = warm_up{steps / 20 + 1, cosine{steps - steps / 20}},
       .max_grad_norm = 1,
       .deadline = std::chrono::seconds(chosen.deadline),
       .on_deadline = deadline_action::abort,
       .trace_events = chosen.trace.empty() && chosen.timeline.empty() ? std::size_t{0} : std::size_t{200'000},
       .link_bytes_per_second = chosen.link_bytes_per_s,
       .layer_times = chosen.layers || !chosen.profile.empty(),
       .graph = chosen.graph,
       .job = job,
       .cores = cores.get()}};

  std::ostream quiet(nullptr);
  std::ostream& out = chosen.quiet || !prints ? quiet : std::cout;
  const network& of = training.net();
  example::resume(training, chosen.save, epochs, out);
  if (chosen.summary) out << summary(training);
  out << describe(of, training.plan()) << bound_note(training.report());

  // mpirun gives processes a terminal, even if their output goes to a file.
  const verbosity how_shown = job == nullptr ? verbosity_for(stdout) : verbosity::lines;
  progress line(out, chosen.quiet || !prints ? verbosity::quiet : how_shown);
  std::optional<log_file> log;
  std::optional<event_folder> events;
  if (prints && !chosen.log.empty()) log.emplace(chosen.log);
  if (prints && !chosen.tensorboard.empty()) events.emplace(chosen.tensorboard);
  example::saver save(training, chosen.save, epochs.first, job);
  fit(training, data.train, epochs, [&](const fit_progress& now) {
    if (log) (*log)(now);
    if (events) (*events)(now);
    if (now.step == now.steps) line.epoch(now);
    else line.step(now);
    if (chosen.trace.empty() && training.steps() + 20 <= steps) training.reset_trace();  // room for the last 20
    return save(now);
  });
  if (const int code = save.finish(); code != 0) return code;
  const std::vector<stage_report> report = training.report();
  const std::vector<recorder>& trace = training.trace();
  const bool timed = chosen.layers || !chosen.profile.empty();
  const measured_profile costs = timed ? training.layer_profile() : measured_profile{};
  const double accuracy = training.evaluate(data.test).accuracy();
  const std::uint64_t hash = training.parameter_hash();
  if (!prints) return 0;

  write_report(out, report, std::thread::hardware_concurrency(), step_time(of, training.plan()));
  if (chosen.layers)
    write_layers(out, of, costs.view(), std::is_same_v<Device, host_device> ? host::gemm_peak() : 0,
                 training.plan().group_gradients);
  if (!chosen.profile.empty()) example::write_costs(out, chosen.profile, of, training.plan(), costs);
  if (!chosen.breakdown.empty())
    write_breakdown(chosen.breakdown, breakdown_of(report), "digits: where the time of a step went");
  if (!chosen.timeline.empty()) write_timeline(chosen.timeline, training.plan(), trace);
  if (!chosen.trace.empty()) write_trace(chosen.trace, trace);
  std::cout << "test accuracy " << std::fixed << std::setprecision(4) << accuracy << '\n'
            << "parameters " << std::hex << std::setw(16) << std::setfill('0') << hash << '\n';
  return 0;
}

int main(int count, char** words) {
  std::unique_ptr<process_group> job;  // destroyed last: after the error is printed
  int code = 0;
  try {
    settings chosen;
    if (chosen.read(count, words)) {
      const int processes = chosen.processes > 0 ? chosen.processes : chosen.workers();
      job = example::join(chosen.transport, processes, std::chrono::seconds(chosen.deadline), count, words);
      code = example::run_on(chosen.device, job.get(), [&](auto device, process_group* group) {
        return train<typename decltype(device)::type>(chosen, group);
      });
    }
    if (!std::cout.flush()) throw error("cannot write to the standard output", "check where the output goes");
    return code;
  } catch (const std::exception& failure) {
    if (example::prints_error(job.get(), failure)) std::cerr << "digits: " << failure.what() << std::endl;
    return example::exit_code(job.get());
  }
}
