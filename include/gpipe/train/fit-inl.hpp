#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/train/fit.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE void check_fit(const fit_calls& training, const data_source& data, const data_source* held_out,
                                       const fit_options& how) {
  if (how.accumulate < 1) throw_error({"accumulate is ", how.accumulate}, {"choose at least 1"});
  if (how.epochs < 0) throw_error({"epochs is ", how.epochs}, {"choose at least 0"});
  if (how.patience < 0) throw_error({"patience is ", how.patience}, {"choose a number of epochs, or 0 for no end"});
  if (how.patience != 0 && held_out == nullptr)
    throw_error({"patience is ", how.patience, " without a held-out dataset"},
                {"give fit a held-out dataset, or choose patience 0"});
  const plateau_options& flat = how.plateau;
  if (flat.patience < 0) throw_error({"plateau.patience is ", flat.patience}, {"choose a number of epochs, or 0"});
  if (!(flat.factor > 0 && flat.factor < 1))
    throw_error({"plateau.factor is ", significant(flat.factor, 6)}, {"choose a number between 0 and 1"});
  if (!(flat.floor >= 0 && flat.floor <= 1))
    throw_error({"plateau.floor is ", significant(flat.floor, 6)}, {"choose a number in 0 ... 1"});
  if (!(flat.begin > 0 && flat.begin <= 1))
    throw_error({"plateau.begin is ", significant(flat.begin, 6)}, {"choose a number above 0, and at most 1"});
  if (flat.patience != 0 && held_out == nullptr)
    throw_error({"plateau.patience is ", flat.patience, " without a held-out dataset"},
                {"give fit a held-out dataset, or choose patience 0"});
  if ((flat.patience != 0 || flat.begin < 1) && training.step_at == nullptr)
    throw_error({"plateau is set, but this trainer takes no rate"}, {"use gpipe::trainer"});
  if (how.restore_best && held_out == nullptr)
    throw_error({"restore_best is true without a held-out dataset"},
                {"give fit a held-out dataset, or leave restore_best out"});
  if (how.restore_best && training.keep == nullptr)
    throw_error({"restore_best is true, but this trainer cannot keep its values"}, {"use gpipe::trainer"});
  // The source rejects a batch size below 1, and a first batch that does not exist.
  const bool own = data.own().count > 0;
  const int behind = how.batch > 0 ? data.samples() % how.batch : 0, last = behind > 0 ? behind : how.batch;
  if (!own && how.batch > 0 && data.samples() > 0 && last < training.min_batch)
    throw_error(
        {"an epoch's last batch of ", several(last, "sample"), " is too small for ", training.min_batch, " replicas"},
        {"choose fewer replicas, or batches of another size"});
  if (how.batch > 0 && how.first.batch % how.accumulate != 0 && how.first.batch != batches_of(data, how.batch))
    throw_error({"the first batch is ", how.first.batch, ", inside a step of ", how.accumulate, " batches"},
                {"choose a multiple of accumulate"});
}

/// The position in batches of this size. Throws if it is inside a batch, or inside an epoch of other data.
GPIPE_COLD GPIPE_INLINE data_position position_in_batches(data_position at, const data_source& data, int given_size) {
  const data_position was = at;
  const int samples = data.samples();
  const bool own = data.own().count > 0;
  const int batch_size = own ? data.own().tokens : given_size;
  at.batch_size = batch_size, at.samples = samples;
  if (was.batch_size < 0 || was.samples < 0 || was.batch < 0)
    throw_error({"the first batch is ", was.batch, ", of ", was.batch_size, " of ", was.samples, " samples"},
                {"give the position that load has returned, or that fit was at"});
  if (was.batch == 0 || batch_size < 1) return at;
  if (was.samples != 0 && was.samples != samples)
    throw_error(
        {"the position is inside an epoch of ", several(was.samples, "sample"), ", but the data have ", samples},
        {"give the data of the training that was stopped, or begin at the next epoch"});
  if (was.batch_size == 0 || was.batch_size == batch_size) return at;
  if (own)
    throw_error({"the position is behind ", several(was.batch, "batch"), " of another size: ", was.batch_size,
                 ", but the data have batches of ", several(batch_size, "token")},
                {"choose .tokens = ", was.batch_size, ", or begin at the next epoch"});
  const auto before = static_cast<std::int64_t>(was.batch) * was.batch_size;
  if (before % batch_size != 0)
    throw_error({"the position is behind ", several(was.batch, "batch"), " of ", several(was.batch_size, "sample"),
                 ", which are no whole batches of ", batch_size},
                {"choose .batch = ", was.batch_size, ", or begin at the next epoch"});
  at.batch = before / batch_size;
  return at;
}

/// The accuracy, if the loss counts the samples that the model got right.
GPIPE_COLD GPIPE_INLINE double accuracy_of(step_result found) {
  const layer_type* const loss = result_source::of(found);
  return loss != nullptr && loss->correct >= 0 ? found.accuracy() : std::numeric_limits<double>::quiet_NaN();
}

/// The epoch's sums, from its first step here on.
struct epoch_sums {
  std::int64_t begin = now_ns(), waited = 0;
  double loss = 0, weight = 0;
  long samples = 0;

  const batch& next_of(data_stream& stream, long number, int of, int size) {
    const std::int64_t asked = now_ns();
    const batch& found = next_batch(stream, number, of, size);
    waited += now_ns() - asked;
    return found;
  }
  void add(const step_result& found, fit_progress& now) {
    loss = detail::multiply_add(found.loss, found.weight, loss);
    weight += found.weight;
    samples += found.samples;
    const double elapsed = static_cast<double>((std::max)(now_ns() - begin, std::int64_t{1}));
    now.loss = loss / weight;
    now.step_loss = found.loss;
    now.norm = found.norm;
    now.samples_per_second = static_cast<double>(samples) / (elapsed * 1e-9);
    now.waiting = static_cast<double>(waited) / elapsed;
  }
};

GPIPE_INLINE fit_result fit(const fit_calls& training, const data_source& data, const data_source* held_out,
                            const fit_options& options) {
  fit_options how = options;
  how.first = position_in_batches(how.first, data, how.batch);
  check_fit(training, data, held_out, how);
  const auto epochs = static_cast<std::uint64_t>((std::max)(how.epochs, 0));
  const batch_order order{.size = how.batch, .shuffled = true, .seed = how.seed, .first = how.first, .epochs = epochs};
  data_position at = first_of(order, data);
  const std::unique_ptr<data_stream> stream = opened(data, order);
  const long parts = batches_of(data, how.batch);
  const bool own = data.own().count > 0;
  fit_result end{.epochs = static_cast<int>((std::min)(at.epoch, epochs))};
  end.next = at;
  const int first_epoch = end.epochs;  // epochs before it are no epochs without a lower loss
  std::vector<std::byte> best;
  bool best_is_last = true;
  int flat_epochs = 0;  // in a row, since the rate was last reduced
  end.rate_factor = how.plateau.begin;
  const auto next_epoch = [&] {
    return data_position{at.epoch + 1, 0, own ? data.own().tokens : how.batch, data.samples()};
  };
  for (; at.epoch < epochs && !end.stopped; at = next_epoch()) {
    const int epoch = static_cast<int>(at.epoch) + 1;
    fit_progress now{.epoch = epoch,
                     .epochs = how.epochs,
                     .step = at.batch / how.accumulate,
                     .steps = static_cast<int>(batches_of(static_cast<int>(parts), how.accumulate))};
    epoch_sums sums;
    while (at.batch < parts && !end.stopped) {
      const batch& next = sums.next_of(*stream, at.batch, data.samples(), own ? 0 : how.batch);
      if (++at.batch % how.accumulate != 0 && at.batch != parts) {
        training.accumulate(training.training, next);
        continue;
      }
      now.rate = training.rate(training.training) * end.rate_factor;
      if (!(now.rate > 0) && end.steps_without_rate++ == 0)
        std::fprintf(stderr,
                     "gpipe: fit: the learning rate is 0 in step %ld of epoch %d, so parameters stay as they are; "
                     "check the steps of the schedule\n",
                     now.step + 1, epoch);
      sums.add(end.rate_factor < 1 ? training.step_at(training.training, next, now.rate)
                                   : training.step(training.training, next),
               now);
      ++now.step;
      end.next = now.next = at.batch == parts ? next_epoch() : at;
      best_is_last = false;
      if (at.batch == parts) {
        end.epochs = epoch;
        if (held_out != nullptr) {
          const step_result found = training.evaluate(training.training, *held_out);
          now.held_out = found.loss;
          now.held_out_accuracy = accuracy_of(found);
        }
        if (now.held_out < end.held_out) {
          end.held_out = now.held_out;
          end.best_epoch = epoch;
          best_is_last = true;
          if (how.restore_best) training.keep(training.training, best);
        }
        flat_epochs = end.best_epoch == epoch ? 0 : flat_epochs + 1;
        if (held_out != nullptr && how.plateau.patience > 0 && flat_epochs >= how.plateau.patience) {
          end.rate_factor = (std::max)(end.rate_factor * how.plateau.factor, how.plateau.floor);
          flat_epochs = 0;
        }
        end.stopped =
            held_out != nullptr && how.patience > 0 && epoch - (std::max)(end.best_epoch, first_epoch) >= how.patience;
      }
      if (training.follow(training.after, now) == loop_control::stop) end.stopped = true;
    }
  }
  if (!best.empty() && !best_is_last) training.restore(training.training, best);
  end.stopped = end.stopped && end.epochs < how.epochs;
  return end;
}

}  // namespace detail

}  // namespace gpipe
