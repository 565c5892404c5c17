#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/runtime/run_report.hpp>
#include <gpipe/runtime/step/batch.hpp>
#include <gpipe/runtime/step/step_input.hpp>

namespace gpipe::detail {

/// A further plan of a training, for its model at a shorter length (see `lengths`). Its cut and its workers are the
/// same as in the plan of the longest length.
struct length_plan {
  const network* net = nullptr;
  const kernel_row* kernels = nullptr;
  step_plan plan{};
  /// [layer]: its derived buffers differ between lengths, so they are recomputed when the length changes.
  const bool* derives_anew = nullptr;
};

/// Gives each stage of the longest plan the memory of the largest plan. All plans keep the buffers that last from step
/// to step at the same bytes. Throws if they do not:
///
///     64 tokens | parameters ... derived | partials ... transient        |
///     32 tokens | parameters ... derived | partials ... transient |
///               the same bytes           | each pass writes them anew
GPIPE_COLD inline void share_arenas(step_plan& longest, const std::vector<length_plan>& shorter) {
  for (int s = 0; s < longest.stages(); ++s) {
    stage_memory& memory = longest.stage_plans[index(s)].memory;
    const stage_memory initial = memory;
    for (const length_plan& length : shorter) {
      for (int k = 0; k < static_cast<int>(memory_kind::partials); ++k)
        if (const auto kind = static_cast<memory_kind>(k); length.plan.memory(s).of(kind) != initial.of(kind))
          throw_error({"the plans of two lengths have ", initial.of(kind), " and ", length.plan.memory(s).of(kind),
                       " bytes of ", name_of(kind)},
                      {"give all lengths the same options"}, {.stage = s});
      const std::int64_t more = length.plan.memory(s).total() - memory.total();
      memory.bytes[static_cast<int>(memory_kind::transient)] += (std::max)(more, std::int64_t{0});
    }
  }
}

/// The name of a field that the network reads and whose rows in the batch have another size; null: there is none.
GPIPE_COLD inline const batch::entry* other_rows(const network& net, const batch& data) {
  const auto differs = [&](const batch::entry& e, std::size_t size) {
    return e.elements != size * index((std::max)(data.samples(), 0));
  };
  for (const batch::entry& e : data.entries()) {
    if (e.name == "inputs" && net.entering > 0 && differs(e, net.values[0].part.size)) return &e;
    for (int f = 0; f < net.field_count; ++f)
      if (e.name == net.fields[f].name && differs(e, net.fields[f].size)) return &e;
  }
  return nullptr;
}

/// The size of a sample's row of a field; 0: the network does not read it.
GPIPE_COLD inline std::size_t row_size(const network& net, std::string_view name) {
  if (name == "inputs") return net.entering > 0 ? net.values[0].part.size : 0;
  for (int f = 0; f < net.field_count; ++f)
    if (name == net.fields[f].name) return net.fields[f].size;
  return 0;
}

/// The number of the network in `nets`, the longest and then the others, whose rows have the batch's sizes. Throws
/// `error` if there is none.
GPIPE_COLD inline std::size_t length_of(const std::vector<const network*>& nets, const batch& data) {
  for (std::size_t k = 0; k < nets.size(); ++k)
    if (other_rows(*nets[k], data) == nullptr) return k;
  const batch::entry& wrong = *other_rows(*nets.front(), data);
  std::string sizes;
  for (std::size_t k = 1; k <= nets.size(); ++k)  // the longest last
    sizes += concat({sizes.empty()      ? ""
                     : k == nets.size() ? " or "
                                        : ", ",
                     row_size(*nets[k % nets.size()], wrong.name)});
  const auto samples = static_cast<std::size_t>((std::max)(data.samples(), 1));
  throw_error({"field \"", wrong.name, "\" of the batch has ", wrong.elements, " elements of ", data.samples(),
               " samples, ", wrong.elements / samples, " each: no plan has rows of the batch's sizes"},
              {"pad the rows of all fields to one length of the plans: \"", wrong.name, "\" to ", sizes});
}

/// The lengths of a training: the longest, then the others. Each call runs the length of its batch.
class length_choice {
 public:
  /// Each length checks and records its own rows, because their sizes differ.
  struct length {
    const network& net;
    const step_plan& plan;
    watched_activations watched;
    step_input input;
  };

  GPIPE_COLD length_choice(const network& net, const step_plan& plan, step_context& step, std::size_t digest_calls,
                           const local_layers& local)
      : step_(step), digest_calls_(digest_calls), local_(local) {
    add(net, plan);
  }
  /// Adds a shorter length; all have one digest.
  GPIPE_COLD void add(const network& net, const step_plan& plan) {
    gpipe::digest* const shared = lengths_.empty() ? nullptr : &digest();
    nets_.push_back(&net);
    lengths_.push_back({net, plan, {net, plan, digest_calls_, shared}, {net, plan, step_, local_}});
  }

  bool several() const { return lengths_.size() > 1; }
  length& longest() { return lengths_.front(); }
  const length& longest() const { return lengths_.front(); }
  length& at(std::size_t number) { return lengths_[number]; }
  gpipe::digest& digest() { return longest().watched.digest(); }

  /// The length that runs, and its number.
  length& running() { return lengths_[running_]; }
  const length& running() const { return lengths_[running_]; }
  std::size_t number() const { return running_; }
  /// The batch's length runs until a batch has another.
  void choose(const batch& data) { running_ = length_of(nets_, data); }

  /// Whether layers must recompute the buffers that they derive from parameters: they have, for another length.
  bool derives_again() { return std::exchange(derived_for_, running_) != running_; }
  /// They have recomputed all buffers, for the longest length.
  void derived_for_longest() { derived_for_ = 0; }

 private:
  step_context& step_;
  std::size_t digest_calls_;
  local_layers local_;
  std::vector<const network*> nets_;
  std::deque<length> lengths_;  // they do not move
  std::size_t running_ = 0, derived_for_ = 0;
};

}  // namespace gpipe::detail
