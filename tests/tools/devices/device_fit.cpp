#include <gpipe/tools/devices/device_fit.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/pooling/global_average_pool.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/tools/best/find_best.hpp>

using namespace gpipe;

namespace {

struct rows
    : model<input<float, 256>, linear<256>, gelu, layer_norm, linear<1024>, gelu, linear<10>, softmax_cross_entropy> {};
struct images : model<input_image<float, 16, 24, 24>, conv2d<16, 3>, gelu, conv2d<32, 3>, global_average_pool,
                      linear<10>, softmax_cross_entropy> {};

/// The profile that a device would measure, but for the rounding to nanoseconds.
measured_profile profile_on(const network& net, const device_spec& on, int samples) {
  measured_profile made{{}, samples};
  for (int l = 0; l < net.layer_count; ++l) {
    const layer_cost c = detail::layer_cost_of(net.type_of(l), samples, on, true);
    made.layers.push_back(
        {l, net.type_of(l).name, c.forward / 1000, c.backward_input / 1000, c.backward_parameters / 1000});
  }
  return made;
}

device_spec planted() {
  device_spec on = this_cpu;
  on.float32 = 40'000'000'000;
  on.convolution = 25'000'000'000;
  on.other = 3'000'000'000;
  on.memory_bytes_per_second = 12'000'000'000;
  on.parameter_bytes_per_second = 2'000'000'000;
  on.launch_ns = 800;
  return on;
}

device_fit fit_to(const device_spec& on) {
  device_fit found;
  for (const int samples : {1, 2, 4, 8, 16, 32})
    for (const network* const net : {&network_of<rows>, &network_of<images>}) {
      const measured_profile measured = profile_on(*net, on, samples);
      found.add(*net, measured.view());
    }
  return found;
}

}  // namespace

TEST_CASE("the rates of a device are found by its times, and each layer's cost at sizes that were not measured") {
  const device_spec on = planted(), found = fit_to(on).device();
  const auto near = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) == doctest::Approx(static_cast<double>(b)).epsilon(0.03);
  };
  CHECK(near(found.float32, on.float32));
  CHECK(near(found.convolution, on.convolution));
  CHECK(near(found.other, on.other));
  CHECK(near(found.memory_bytes_per_second, on.memory_bytes_per_second));
  CHECK(near(found.parameter_bytes_per_second, on.parameter_bytes_per_second));
  CHECK(near(found.launch_ns, on.launch_ns));
  CHECK(near(found.float64, found.float32 / 2));  // as of this_cpu
  CHECK(found.link_bytes_per_second == this_cpu.link_bytes_per_second);
  CHECK(fit_to(on).median_error() < 0.01);
  for (const int samples : {3, 100})
    for (int l = 0; l < network_of<images>.layer_count; ++l) {
      const detail::layer_type& of = network_of<images>.type_of(l);
      CHECK(near(detail::layer_cost_of(of, samples, found, true).forward,
                 detail::layer_cost_of(of, samples, on, true).forward));
    }
}

TEST_CASE("a kernel that took a hundred times as long, because the machine did other things, hardly counts") {
  device_fit found = fit_to(planted());
  measured_profile disturbed = profile_on(network_of<rows>, planted(), 8);
  disturbed.layers[3].forward_ns *= 100;
  found.add(network_of<rows>, disturbed.view());
  const auto rate = static_cast<double>(found.device().float32);
  CHECK(rate == doctest::Approx(40e9).epsilon(0.05));
}

TEST_CASE("no rate is negative, and a cost that no kernel has is 0") {
  device_spec on = planted();
  on.launch_ns = 0;
  on.parameter_bytes_per_second = 1'000'000'000'000'000;
  const device_spec found = fit_to(on).device();
  CHECK(found.launch_ns <= 1);
  CHECK(found.parameter_bytes_per_second >= 0);
  CHECK(found.memory_bytes_per_second > 0);
}

TEST_CASE("a fit needs a product, and profiles of their models") {
  CHECK_THROWS_WITH(device_fit().device(), "the measured kernels have no product; profile a model with a linear layer");
  CHECK(device_fit().median_error() == 0);
  device_fit found;
  const measured_profile of_rows = profile_on(network_of<rows>, planted(), 1);
  CHECK_THROWS_AS(found.add(network_of<images>, of_rows.view()), error);
}

TEST_CASE("where a micro-batch pays much for the parameters that it reads, the best plan has larger ones") {
  const plan_space space{.devices = 2, .batch = 64, .workers = 2};
  device_spec fast = planted(), slow = planted();
  fast.parameter_bytes_per_second = 100 * slow.parameter_bytes_per_second;
  const auto size = [&](const device_spec& on) {
    return find_best(network_of<rows>, space, {.device = on}).winner.micro_batch_size;
  };
  CHECK(size(slow) > size(fast));
}
