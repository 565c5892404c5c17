#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/model/network.hpp>

namespace gpipe::detail {

// A prediction is the input of the loss, or the output of the loss's `predict`. If the loss reads no prediction, the
// layers before it that have `predicted` make one together, and each makes its columns of every row:
//
//     row of a sample     | slice 0          | slice 1          | slice 2        |
//                           block of rows after block of rows, each from one extra

/// Whether layers before the loss make the columns.
inline bool is_in_columns(const layer_type& loss) { return loss.predicted < 0 && !loss.predicts; }
/// Whether this layer makes some of them. A prediction runs its `predict` and not its forward.
inline bool makes_columns(const network& net, int layer) {
  const layer_type& maker = net.type_of(layer);
  const int loss = net.loss_layer();
  return layer < loss && maker.predicted >= 0 && !maker.auxiliary_loss() && is_in_columns(net.type_of(loss));
}

/// The columns that a layer makes, in bytes of a row.
struct column_range {
  std::size_t first = 0, bytes = 0, of_row = 0;
};

/// The columns of a row from one such layer.
inline std::size_t columns_of(const layer_type& maker) {
  return maker.extras[maker.predicted].size / index(maker.lists->predicted.block);
}
/// The columns of a layer within the rows of all layers. Layers are in the order of the model.
inline column_range columns_in_row(const network& net, int layer) {
  column_range found;
  for (int l = 0; l < net.loss_layer(); ++l) {
    if (!makes_columns(net, l)) continue;
    const layer_type& maker = net.type_of(l);
    const std::size_t bytes = columns_of(maker) * bytes_of(maker.extras[maker.predicted].type);
    if (l < layer) found.first += bytes;
    if (l == layer) found.bytes = bytes;
    found.of_row += bytes;
  }
  return found;
}

/// Throws `error` if a layer that runs forward in a prediction reads a value of a layer that does not.
GPIPE_COLD inline void require_written(const network& net, int reader) {
  const layer_type& layer = net.type_of(reader);
  for (int i = 0; i < layer.inputs && !makes_columns(net, reader) && !layer.auxiliary_loss(); ++i)
    if (const int writer = net.values[net.reads_value(reader, i)].writer; writer >= 0 && makes_columns(net, writer))
      throw_error({"predict: the layer reads what ", net.type_of(writer).name, " writes in forward, and a prediction ",
                   "runs `predict` of that layer alone"},
                  {"put the layers that make a prediction behind all others"},
                  {.layer = std::string(layer.name), .layer_index = reader});
}

/// The tensors of a prediction of one sample. Throws `error` if the model makes none.
GPIPE_COLD inline std::vector<edge_part> predicted_parts(const network& net) {
  const int layer = net.loss_layer();
  const layer_type& loss = net.type_of(layer);
  if (loss.predicted >= 0) return {{loss.extras[loss.predicted].size, loss.extras[loss.predicted].type}};
  std::vector<edge_part> parts;
  for (int i = 0; i < loss.inputs && loss.predicts; ++i) parts.push_back(net.values[net.reads_value(layer, i)].part);
  int rows = 0;
  for (int l = 0; l < layer; ++l) {
    require_written(net, l);
    if (!makes_columns(net, l)) continue;
    const layer_type& maker = net.type_of(l);
    const dtype type = maker.extras[maker.predicted].type;
    if (parts.empty()) parts.push_back({0, type}), rows = maker.lists->predicted.rows;
    if (rows != maker.lists->predicted.rows || type != parts[0].type)
      throw_error({"predict: the layer makes columns of ", maker.lists->predicted.rows, " rows of ", name_of(type),
                   ", and those before it of ", rows, " rows of ", name_of(parts[0].type)},
                  {"give the layers that make a prediction equal rows"},
                  {.layer = std::string(maker.name), .layer_index = l});
    parts[0].size += index(rows) * columns_of(maker);
  }
  if (parts.empty())
    throw_error({"predict: the loss reads no prediction, and no layer before it makes one"},
                {"give a layer an extra that is `predicted`"}, {.layer = std::string(loss.name), .layer_index = layer});
  return parts;
}

/// Copies `rows` rows of `bytes` bytes; the rows begin `source_stride` and `target_stride` bytes apart.
inline void copy_columns(std::size_t rows, std::size_t bytes, const std::byte* source, std::size_t source_stride,
                         std::byte* target, std::size_t target_stride) {
  for (std::size_t r = 0; r < rows; ++r) std::memcpy(target + r * target_stride, source + r * source_stride, bytes);
}

}  // namespace gpipe::detail
