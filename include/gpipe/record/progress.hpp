#pragma once

#include <gpipe/core/descriptions/data_position.hpp>
#include <gpipe/core/text/quantity.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <ostream>
#include <string>

#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

namespace gpipe {

// change: a logged number
/// The progress of a training: completed steps and epochs, and their totals. Steps are not shown if `steps` is 0.
struct fit_progress {
  int epoch = 0, epochs = 0;
  long step = 0, steps = 0;
  double loss = 0, rate = 0, samples_per_second = 0;                    ///< `loss` is the mean over the epoch so far
  double held_out = std::numeric_limits<double>::quiet_NaN();           ///< loss on the held-out dataset, if evaluated
  double held_out_accuracy = std::numeric_limits<double>::quiet_NaN();  ///< accuracy on it, if the loss has one
  double step_loss = 0;                                                 ///< of the last step alone
  double norm = 0;       ///< of the last step's mean gradient, before clipping
  double waiting = 0;    ///< share of the epoch's time so far in which steps waited for the data
  data_position next{};  ///< the batch after this step: `fit_options::first` of a training that continues from here
};

/// The amount of output of a training.
enum class verbosity : std::uint8_t {
  quiet,  ///< no output
  lines,  ///< one line per epoch
  live,   ///< one line, rewritten in place, that stays at the end of an epoch
};

/// `live` for a terminal, otherwise `lines`, which suit a log.
inline verbosity verbosity_for(std::FILE* stream) {
#if defined(_WIN32)
  return _isatty(_fileno(stream)) ? verbosity::live : verbosity::lines;
#else
  return isatty(fileno(stream)) ? verbosity::live : verbosity::lines;
#endif
}

/// The progress line of a training:
///
///     epoch 3/30  step 12/45  loss 0.2179  rate 0.001  18.4 k samples/s
class progress {
 public:
  progress(std::ostream& out, verbosity mode, std::chrono::milliseconds pause = std::chrono::milliseconds(100))
      : out_(out), mode_(mode), pause_(pause) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() {
    if (shown_ > 0) out_ << std::endl;
  }

  /// Called after every step; writes at most once per `pause`.
  GPIPE_COLD void step(const fit_progress& state) {
    if (mode_ != verbosity::live) return;
    const auto time = std::chrono::steady_clock::now();
    if (shown_ > 0 && time - last_ < pause_) return;
    last_ = time;
    rewrite(line(state, true));
    out_ << std::flush;
  }

  /// Called after every epoch.
  GPIPE_COLD void epoch(const fit_progress& state) {
    if (mode_ == verbosity::quiet) return;
    rewrite(line(state, false));
    out_ << std::endl;
    shown_ = 0;
  }

 private:
  GPIPE_COLD static std::string line(const fit_progress& state, bool steps) {
    const auto fraction = [](long part, long whole) {
      return std::to_string(part) + (whole > 0 ? "/" + std::to_string(whole) : "");
    };
    return "epoch " + fraction(state.epoch, state.epochs) +
           (steps && state.steps > 0 ? "  step " + fraction(state.step, state.steps) : "") + "  loss " +
           detail::fixed(state.loss, 4) +
           (state.held_out == state.held_out ? "  held out " + detail::fixed(state.held_out, 4) : "") + "  rate " +
           detail::significant(state.rate, 3) + "  " + detail::counted(whole(state.samples_per_second)) + " samples/s";
  }

  static std::uint64_t whole(double count) {
    return count > 0 ? static_cast<std::uint64_t>((std::min)(count, 1e18) + 0.5) : 0;
  }

  GPIPE_COLD void rewrite(const std::string& text) {
    if (mode_ == verbosity::live) out_ << '\r';
    out_ << text;
    if (shown_ > text.size()) out_ << std::string(shown_ - text.size(), ' ');
    shown_ = text.size();
  }

  std::ostream& out_;
  verbosity mode_;
  std::chrono::milliseconds pause_;
  std::chrono::steady_clock::time_point last_{};
  std::size_t shown_ = 0;
};

}  // namespace gpipe
