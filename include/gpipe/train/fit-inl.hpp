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

// change: a fit option; the check
GPIPE_COLD GPIPE_INLINE void check_fit(const fit_calls& training, const data_source& data, const data_source* held_out,
                                       const fit_options& options) {
  if (options.accumulate < 1) throw_error({"accumulate is ", options.accumulate}, {"choose at least 1"});
  if (options.epochs < 0) throw_error({"epochs is ", options.epochs}, {"choose at least 0"});
  if (options.patience < 0)
    throw_error({"patience is ", options.patience}, {"choose a number of epochs, or 0 for no end"});
  if (options.patience != 0 && held_out == nullptr)
    throw_error({"patience is ", options.patience, " without a held-out dataset"},
                {"give fit a held-out dataset, or choose patience 0"});
  const plateau_options& plateau = options.plateau;
  if (plateau.patience < 0)
    throw_error({"plateau.patience is ", plateau.patience}, {"choose a number of epochs, or 0"});
  if (!(plateau.factor > 0 && plateau.factor < 1))
    throw_error({"plateau.factor is ", significant(plateau.factor, 6)}, {"choose a number between 0 and 1"});
  if (!(plateau.floor >= 0 && plateau.floor <= 1))
    throw_error({"plateau.floor is ", significant(plateau.floor, 6)}, {"choose a number in 0 ... 1"});
  if (!(plateau.begin > 0 && plateau.begin <= 1))
    throw_error({"plateau.begin is ", significant(plateau.begin, 6)}, {"choose a number above 0, and at most 1"});
  if (plateau.patience != 0 && held_out == nullptr)
    throw_error({"plateau.patience is ", plateau.patience, " without a held-out dataset"},
                {"give fit a held-out dataset, or choose patience 0"});
  if ((plateau.patience != 0 || plateau.begin < 1) && training.step_at == nullptr)
    throw_error({"plateau is set, but this trainer takes no rate"}, {"use gpipe::trainer"});
  if (options.restore_best && held_out == nullptr)
    throw_error({"restore_best is true without a held-out dataset"},
                {"give fit a held-out dataset, or leave restore_best out"});
  if (options.restore_best && training.keep == nullptr)
    throw_error({"restore_best is true, but this trainer cannot keep its values"}, {"use gpipe::trainer"});
  // The source rejects a batch size below 1, and a first batch that does not exist.
  const bool sized_by_source = data.own().count > 0;
  const int remainder = options.batch > 0 ? data.samples() % options.batch : 0,
            last = remainder > 0 ? remainder : options.batch;
  if (!sized_by_source && options.batch > 0 && data.samples() > 0 && last < training.min_batch)
    throw_error(
        {"an epoch's last batch of ", several(last, "sample"), " is too small for ", training.min_batch, " replicas"},
        {"choose fewer replicas, or batches of another size"});
  if (options.batch > 0 && options.first.batch % options.accumulate != 0 &&
      options.first.batch != batches_of(data, options.batch))
    throw_error({"the first batch is ", options.first.batch, ", inside a step of ", options.accumulate, " batches"},
                {"choose a multiple of accumulate"});
}

/// The position in batches of this size. Throws if it is inside a batch, or inside an epoch of other data.
GPIPE_COLD GPIPE_INLINE data_position position_in_batches(data_position position, const data_source& data,
                                                          int given_size) {
  const data_position given = position;
  const int samples = data.samples();
  const bool sized_by_source = data.own().count > 0;
  const int batch_size = sized_by_source ? data.own().tokens : given_size;
  position.batch_size = batch_size, position.samples = samples;
  if (given.batch_size < 0 || given.samples < 0 || given.batch < 0)
    throw_error({"the first batch is ", given.batch, ", of ", given.batch_size, " of ", given.samples, " samples"},
                {"give the position that load has returned, or that fit was at"});
  if (given.batch == 0 || batch_size < 1) return position;
  if (given.samples != 0 && given.samples != samples)
    throw_error(
        {"the position is inside an epoch of ", several(given.samples, "sample"), ", but the data have ", samples},
        {"give the data of the training that was stopped, or begin at the next epoch"});
  if (given.batch_size == 0 || given.batch_size == batch_size) return position;
  if (sized_by_source)
    throw_error({"the position is behind ", several(given.batch, "batch"), " of another size: ", given.batch_size,
                 ", but the data have batches of ", several(batch_size, "token")},
                {"choose .tokens = ", given.batch_size, ", or begin at the next epoch"});
  const auto before = static_cast<std::int64_t>(given.batch) * given.batch_size;
  if (before % batch_size != 0)
    throw_error({"the position is behind ", several(given.batch, "batch"), " of ", several(given.batch_size, "sample"),
                 ", which are no whole batches of ", batch_size},
                {"choose .batch = ", given.batch_size, ", or begin at the next epoch"});
  position.batch = before / batch_size;
  return position;
}

/// The accuracy, if the loss counts the samples that the model got right.
GPIPE_COLD GPIPE_INLINE double accuracy_of(step_result result) {
  const layer_type* const loss = result_source::of(result);
  return loss != nullptr && loss->correct >= 0 ? result.accuracy() : std::numeric_limits<double>::quiet_NaN();
}

// change: a non-finite step
/// The sums of an epoch, over the steps that this call of `fit` takes.
struct epoch_sums {
  std::int64_t begin = now_ns(), waited = 0;
  double loss = 0, weight = 0;
  long samples = 0;

  const batch& next_of(data_stream& stream, long number, int epoch_samples, int size) {
    const std::int64_t asked = now_ns();
    const batch& next = next_batch(stream, number, epoch_samples, size);
    waited += now_ns() - asked;
    return next;
  }
  void add(const step_result& result, fit_progress& progress) {
    loss = detail::multiply_add(result.loss, result.weight, loss);
    weight += result.weight;
    samples += result.samples;
    const double elapsed = static_cast<double>((std::max)(now_ns() - begin, std::int64_t{1}));
    progress.loss = loss / weight;
    progress.step_loss = result.loss;
    progress.norm = result.norm;
    progress.samples_per_second = static_cast<double>(samples) / (elapsed * 1e-9);
    progress.waiting = static_cast<double>(waited) / elapsed;
  }
};

// change: a fit option
GPIPE_INLINE fit_result fit(const fit_calls& training, const data_source& data, const data_source* held_out,
                            const fit_options& options) {
  fit_options settings = options;
  settings.first = position_in_batches(settings.first, data, settings.batch);
  check_fit(training, data, held_out, settings);
  const auto epochs = static_cast<std::uint64_t>((std::max)(settings.epochs, 0));
  const batch_order order{
      .size = settings.batch, .shuffled = true, .seed = settings.seed, .first = settings.first, .epochs = epochs};
  data_position position = first_of(order, data);
  const std::unique_ptr<data_stream> stream = opened(data, order);
  const long batches = batches_of(data, settings.batch);
  const bool sized_by_source = data.own().count > 0;
  fit_result result{.epochs = static_cast<int>((std::min)(position.epoch, epochs))};
  result.next = position;
  const int first_epoch = result.epochs;  // epochs before it are no epochs without a lower loss
  std::vector<std::byte> best;
  bool best_is_last = true;
  int flat_epochs = 0;  // in a row, since the rate was last reduced
  result.rate_factor = settings.plateau.begin;
  const auto next_epoch = [&] {
    return data_position{position.epoch + 1, 0, sized_by_source ? data.own().tokens : settings.batch, data.samples()};
  };
  for (; position.epoch < epochs && !result.stopped; position = next_epoch()) {
    const int epoch = static_cast<int>(position.epoch) + 1;
    fit_progress progress{.epoch = epoch,
                          .epochs = settings.epochs,
                          .step = position.batch / settings.accumulate,
                          .steps = static_cast<int>(batches_of(static_cast<int>(batches), settings.accumulate))};
    epoch_sums sums;
    while (position.batch < batches && !result.stopped) {
      const batch& next = sums.next_of(*stream, position.batch, data.samples(), sized_by_source ? 0 : settings.batch);
      if (++position.batch % settings.accumulate != 0 && position.batch != batches) {
        training.accumulate(training.training, next);
        continue;
      }
      progress.rate = training.rate(training.training) * result.rate_factor;
      if (!(progress.rate > 0) && result.steps_without_rate++ == 0)
        std::fprintf(stderr,
                     "gpipe: fit: the learning rate is 0 in step %ld of epoch %d, so parameters stay as they are; "
                     "check the steps of the schedule\n",
                     progress.step + 1, epoch);
      sums.add(result.rate_factor < 1 ? training.step_at(training.training, next, progress.rate)
                                      : training.step(training.training, next),
               progress);
      ++progress.step;
      result.next = progress.next = position.batch == batches ? next_epoch() : position;
      best_is_last = false;
      if (position.batch == batches) {
        result.epochs = epoch;
        if (held_out != nullptr) {
          const step_result evaluation = training.evaluate(training.training, *held_out);
          progress.held_out = evaluation.loss;
          progress.held_out_accuracy = accuracy_of(evaluation);
        }
        if (progress.held_out < result.held_out) {
          result.held_out = progress.held_out;
          result.best_epoch = epoch;
          best_is_last = true;
          if (settings.restore_best) training.keep(training.training, best);
        }
        flat_epochs = result.best_epoch == epoch ? 0 : flat_epochs + 1;
        if (held_out != nullptr && settings.plateau.patience > 0 && flat_epochs >= settings.plateau.patience) {
          result.rate_factor = (std::max)(result.rate_factor * settings.plateau.factor, settings.plateau.floor);
          flat_epochs = 0;
        }
        result.stopped = held_out != nullptr && settings.patience > 0 &&
                         epoch - (std::max)(result.best_epoch, first_epoch) >= settings.patience;
      }
      if (training.follow(training.after, progress) == loop_control::stop) result.stopped = true;
    }
  }
  if (!best.empty() && !best_is_last) training.restore(training.training, best);
  result.stopped = result.stopped && result.epochs < settings.epochs;
  return result;
}

}  // namespace detail

}  // namespace gpipe
