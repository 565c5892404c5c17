#pragma once

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/tools/drawing/canvas.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace gpipe {

/// The time of steps by its use: the time from call to return, once per worker, in nanoseconds. The parts sum to it
/// exactly. They are the ones of Huang et al., "GPipe", 2019 (arXiv 1811.06965), performance analysis, for K workers:
///
/// - compute: forward and backward. K times the mean of the workers: the whole time if all stages were equal, the
///   pipeline always full and nothing else to do.
/// - recompute: forward once more, before the gradient arrives. (Single layers that run again later are part of
///   backward.)
/// - transfer: waiting for data that is on a link, copies for several readers, and sending. (Adding the gradients of
///   several readers is part of backward.)
/// - update: gradients cleared and their norms summed; the decision and the update, from the time at which the last
///   worker has arrived.
/// - imbalance: idle time, up to the difference of compute and recompute time between the busiest worker and this one.
/// - bubble: the rest: the schedule's filling and draining, synchronization, waking, and indirect waits.
struct breakdown {
  std::int64_t compute = 0, recompute = 0, imbalance = 0, bubble = 0, transfer = 0, update = 0;
  int workers = 0, steps = 0;

  std::int64_t total() const { return compute + recompute + imbalance + bubble + transfer + update; }
  /// The mean time of a step.
  double step_ms() const {
    return steps == 0 ? 0 : 1e-6 * static_cast<double>(total()) / static_cast<double>(workers) / steps;
  }
};

/// The sum over the stages that executors report.
GPIPE_COLD inline breakdown breakdown_of(std::span<const stage_report> stages) {
  breakdown sum;
  for (const stage_report& s : stages) {
    sum.workers = (std::max)(sum.workers, s.worker + 1);
    sum.steps = s.steps;
  }
  const std::int64_t whole = stages.empty() ? 0 : stages[0].step_ns;
  std::vector<std::int64_t> works(static_cast<std::size_t>(sum.workers)), idle(works.size(), whole);
  for (const stage_report& s : stages) {
    // change: an action; by the kind of its time
    const std::int64_t compute = s.busy(action_kind::forward) + s.busy(action_kind::backward) +
                                 s.busy(action_kind::backward_input) + s.busy(action_kind::backward_parameters);
    const std::int64_t update = s.busy(action_kind::reduce) + s.busy(action_kind::update);
    const std::int64_t recompute = s.busy(action_kind::recompute);
    const std::int64_t transfer = s.busy() - compute - recompute - update + s.link_ns;
    sum.compute += compute;
    sum.recompute += recompute;
    sum.transfer += transfer;
    sum.update += update;
    works[static_cast<std::size_t>(s.worker)] += compute + recompute;
    idle[static_cast<std::size_t>(s.worker)] -= compute + recompute + transfer + update;
  }
  for (std::size_t w = 0; w < works.size(); ++w) {
    const std::int64_t beyond = *std::max_element(works.begin(), works.end()) - works[w];
    const std::int64_t imbalance = (std::max)(std::int64_t{0}, (std::min)(idle[w], beyond));
    sum.imbalance += imbalance;
    sum.bubble += idle[w] - imbalance;
  }
  return sum;
}

namespace detail {

GPIPE_COLD inline std::vector<bar_part> parts_of(const breakdown& b) {
  return {{"compute", b.compute, action_kind::backward, nullptr},
          {"recompute", b.recompute, action_kind::recompute, nullptr},
          {"imbalance", b.imbalance, action_kind::idle, hues[7].light},
          {"bubble", b.bubble, action_kind::idle, hues[4].light},
          {"transfer", b.transfer, action_kind::idle, hues[3].dark},
          {"update", b.update, action_kind::update, nullptr}};
}

}  // namespace detail

/// In words: "compute 61.2 %, recompute 15.0 %, ...".
GPIPE_COLD inline std::string describe(const breakdown& b) {
  std::string text;
  for (const auto& part : detail::parts_of(b))
    text += (text.empty() ? "" : ", ") + std::string(part.name) + " " +
            detail::percent(static_cast<double>(part.ns), static_cast<double>(b.total()));
  return text;
}

/// Draws one bar (SVG), each part as wide as its share.
GPIPE_COLD inline void write_breakdown(std::ostream& out, const breakdown& b,
                                       const std::string& title = "where the time of a step went", int width = 900) {
  detail::write_stacked_bar(out, detail::parts_of(b), title,
                            "a step of " + detail::significant(b.step_ms(), 4) + " ms, on " +
                                detail::several(b.workers, "worker") + "; mean of " + std::to_string(b.steps),
                            width);
}

/// Throws `gpipe::error` with the path unless the file was written completely.
inline void write_breakdown(const std::string& path, const breakdown& b,
                            const std::string& title = "where the time of a step went", int width = 900) {
  write_file(path, [&](std::ostream& out) { write_breakdown(out, b, title, width); });
}

}  // namespace gpipe
