#pragma once

#include <algorithm>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/train/data/data_source.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD inline data_position first_of_batches(const batch_order& order, long count) {
  if (order.first.batch < 0 || order.first.batch > count)
    throw_error({"the first batch is ", order.first.batch, ", but an epoch has ", count},
                {"choose 0 to ", count, ", with the data and the batch size of the training that was stopped"});
  data_position position = order.first;
  if (position.batch == count) ++position.epoch, position.batch = 0;
  return position;
}

GPIPE_COLD GPIPE_INLINE data_position first_of(const batch_order& order, int samples) {
  if (order.size < 1) throw_error({"the batch size is ", order.size}, {"choose at least 1"});
  if (samples < 1) throw_error({"the dataset has no samples"}, {"add its fields by with(name, size, rows)"});
  return first_of_batches(order, batches_of(samples, order.size));
}
GPIPE_COLD GPIPE_INLINE data_position first_of(const batch_order& order, const data_source& data) {
  if (const long count = data.own().count; count > 0) return first_of_batches(order, count);
  return first_of(order, data.samples());
}

GPIPE_COLD GPIPE_INLINE std::unique_ptr<data_stream> opened(const data_source& data, const batch_order& order) {
  std::unique_ptr<data_stream> found = data.open(order);
  if (found == nullptr) throw_error({"the data source opens no stream"}, {"return a data_stream from open()"});
  return found;
}
GPIPE_INLINE const batch& next_batch(data_stream& stream, long number, int samples, int size) {
  const batch* const found = stream.next();
  const long before = number * size;
  if (found == nullptr)
    throw_error({"the data end before the epoch does: after ", size > 0 ? concat({before}) : several(number, "batch"),
                 " of ", several(samples, "sample")},
                {"give as many as samples() says, and all batches from the first on"});
  if (const long wanted = (std::min)(samples - before, static_cast<long>(size)); size > 0 && found->samples() != wanted)
    throw_error(
        {"batch ", number, " of an epoch of ", several(samples, "sample"), " has ", found->samples(), ", not ", wanted},
        {"give batches of the size of the order, and as many samples as samples() says"});
  return *found;
}

GPIPE_COLD GPIPE_INLINE void require_samples(long found, int samples) {
  if (found != samples)
    throw_error({"the batches of an epoch have ", several(found, "sample"), ", and the source says ", samples},
                {"give as many as samples() says, in as many batches as own() says"});
}

GPIPE_COLD GPIPE_INLINE void require_end(data_stream& stream, int samples) {
  if (const batch* const more = stream.next())
    throw_error({"the data go on behind the epoch: ", several(samples, "sample"), ", and ", more->samples(), " more"},
                {"give as many as samples() says, and end the stream after the epochs of its order"});
}

}  // namespace detail

}  // namespace gpipe
