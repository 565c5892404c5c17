#pragma once

// Measures this CPU for `plan best`: `plan measure`.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/pooling/global_average_pool.hpp>
#include <gpipe/tools/devices/device_file.hpp>
#include <gpipe/tools/devices/device_fit.hpp>
#include <gpipe/train.hpp>

#include "../text.hpp"
#include "measure_settings.hpp"

namespace example {

using namespace gpipe;

// Products, convolutions and other layers, of two sizes each.
struct timed_rows : model<input<float, 256>, linear<256>, gelu, layer_norm, linear<1024>, gelu, linear<256>, layer_norm,
                          linear<10>, softmax_cross_entropy> {};
struct timed_images : model<input_image<float, 16, 24, 24>, conv2d<16, 3>, relu, conv2d<32, 3>, relu,
                            global_average_pool, linear<10>, softmax_cross_entropy> {};

inline constexpr int timed_sizes[] = {1, 2, 4, 8, 16, 32};  // samples of a micro-batch

/// The times of each layer of a model, for every size.
template <class Model>
std::vector<measured_profile> timed_layers(int steps) {
  constexpr std::size_t elements = network_of<Model>.values[0].part.size;
  constexpr int micro_batches = 4;
  std::vector<measured_profile> all;
  for (const int size : timed_sizes) {
    const auto samples = static_cast<std::size_t>(size * micro_batches);
    const std::vector<float> inputs(samples * elements, 0.5F);
    const std::vector<std::int32_t> labels(samples, 1);
    trainer<Model, sgd> training{plan_options{.stages = 1, .micro_batches = micro_batches, .micro_batch_size = size}};
    all.push_back(
        training.profile_layers(batch(size * micro_batches).with("inputs", inputs).with("labels", labels), steps));
  }
  return all;
}

/// A line a layer: what it takes of 1, 8 and 32 samples, and the fixed part and that of a sample by the fit.
inline void add_lines(table& rows, const network& net, const std::vector<measured_profile>& timed,
                      const device_spec& fitted) {
  const auto sum = [](const layer_cost& c) { return (c.forward + c.backward_input + c.backward_parameters) / 1000; };
  for (int l = 0; l < net.layer_count; ++l) {
    std::vector<std::string> row{std::string(net.type_of(l).name)};
    for (const std::size_t at : {0U, 3U, 5U}) {
      const measured_layer& line = timed[at].layers[static_cast<std::size_t>(l)];
      row.push_back(time(line.forward_ns + line.backward_input_ns + line.backward_parameters_ns));
    }
    const auto fit = [&](int samples) {
      return sum(gpipe::detail::layer_cost_of(net.type_of(l), samples, fitted, true));
    };
    row.push_back(time(fit(1) - (fit(2) - fit(1))));
    row.push_back(time(fit(2) - fit(1)));
    rows.push_back(row);
  }
}

inline void print_measured(const measure_settings& chosen) {
  require_writable(chosen.out);
  const std::vector<measured_profile> rows = timed_layers<timed_rows>(chosen.steps),
                                      images = timed_layers<timed_images>(chosen.steps);
  device_fit found;
  for (const measured_profile& it : rows) found.add(network_of<timed_rows>, it.view());
  for (const measured_profile& it : images) found.add(network_of<timed_images>, it.view());
  const device_spec on = found.device();
  write_device(chosen.out, on);
  table lines{{"layer", "1 sample", "8 samples", "32 samples", "fixed", "a sample"}};
  add_lines(lines, network_of<timed_rows>, rows, on);
  add_lines(lines, network_of<timed_images>, images, on);
  const auto giga = [](std::int64_t rate) { return gpipe::detail::significant(static_cast<double>(rate) / 1e9, 3); };
  std::cout << "Forward and backward of a micro-batch, medians of " << several(chosen.steps, "step")
            << ". The last two columns are the fit:\n\n"
            << gpipe::detail::table(lines) << "\nOperations: products " << giga(on.float32) << " Gflop/s, convolutions "
            << giga(on.convolution) << ", other layers " << giga(on.other) << ". Bytes: memory "
            << giga(on.memory_bytes_per_second) << " GB/s, parameters " << giga(on.parameter_bytes_per_second)
            << ". A kernel starts in " << on.launch_ns << " ns.\nHalf of the kernels differ from the fit by less than "
            << percent(found.median_error()) << ". `plan best --machine " << chosen.out
            << "` plans with these rates.\n";
}

}  // namespace example
