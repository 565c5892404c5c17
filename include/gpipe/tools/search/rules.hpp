#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/search/list_schedule.hpp>
#include <gpipe/tools/search/order_search.hpp>
#include <gpipe/tools/search/pipeline.hpp>

#include <cstdint>

namespace gpipe {

// change: the schedule search; a rule
/// The rule of zero-bubble schedules: input parts first, because other workers wait for them, then forwards, later
/// stages first; parameter parts when nothing else can begin.
struct gradients_first {
  constexpr std::int64_t operator()(const ready_action& a) const {
    const int kind = a.kind == action_kind::backward_input ? 0 : a.kind == action_kind::forward ? 1 : 2;
    return std::int64_t{a.stages} * kind + (a.stages - 1 - a.stage);
  }
};

namespace detail {

/// A random rule. It draws which kind comes first, whether earlier or later stages do, how long a worker waits for a
/// preferred action, how full it may be before parameter parts come first, and how many micro-batches a stage takes.
class random_rule {
 public:
  constexpr random_rule(const searched_pipeline& pipeline, random_sequence& random) {
    for (int& direction : by_stage_) direction = random.below(3) - 1;
    forward_first_ = random.below(4) == 0;
    full_ = random.below(3) == 0 ? 1.0 : 0.4 + 0.01 * random.below(60);
    waits_ = random.below(2) == 0 ? 0 : longest_forward(pipeline) / 8 * random.below(8);
    lead_ = 2 + random.below(2 * pipeline.workers);
    lead_by_worker_ = random.below(5);
    lead_up_ = 2 + random.below(pipeline.workers + pipeline.workers / 2);
  }

  constexpr std::int64_t waits() const { return waits_; }
  constexpr std::int64_t operator()(const ready_action& a) const {
    const bool forward = a.kind == action_kind::forward, down = a.stage == a.worker;
    const int most = down ? lead_ + lead_by_worker_ * (a.stages - 1 - a.stage) / 4 : lead_up_;
    if (forward && a.in_flight >= most) return -1;
    int rank = forward == forward_first_ ? 1 : 2, kind = forward ? 1 : 0;
    if (a.kind == action_kind::backward_parameters) {
      kind = 2;
      rank = full_ < 1 && static_cast<double>(a.bytes) > full_ * static_cast<double>(a.limit) ? 0 : 3;
    }
    return (std::int64_t{rank} * 4 + 1) * a.stages + by_stage_[kind] * a.stage;
  }

 private:
  static constexpr std::int64_t longest_forward(const searched_pipeline& pipeline) {
    std::int64_t max = 0;
    for (int s = 0; s < pipeline.stage_count(); ++s)
      if (pipeline.stage(s).forward > max) max = pipeline.stage(s).forward;
    return max;
  }

  int by_stage_[3]{};
  bool forward_first_ = false;
  double full_ = 1;
  int lead_ = 1, lead_by_worker_ = 0, lead_up_ = 1;
  std::int64_t waits_ = 0;
};

}  // namespace detail

}  // namespace gpipe
