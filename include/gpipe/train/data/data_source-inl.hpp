#pragma once

#include <gpipe/train/data/data_source.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE data_position first_of(const batch_order& order, int samples) {
  if (order.size < 1) throw_error({"the batch size is ", order.size}, {"choose at least 1"});
  if (samples < 1) throw_error({"the dataset has no samples"}, {"add its fields by with(name, size, rows)"});
  const long count = batches_of(samples, order.size);
  if (order.first.batch < 0 || order.first.batch > count)
    throw_error({"the first batch is ", order.first.batch, ", but an epoch has ", count},
                {"choose 0 to ", count, ", with the data and the batch size of the training that was stopped"});
  return order.first.batch == count ? data_position{order.first.epoch + 1, 0} : order.first;
}

}  // namespace detail

}  // namespace gpipe
