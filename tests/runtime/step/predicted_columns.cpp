// sanitizers: address

#include <gpipe/runtime/step/predicted_columns.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/sliced_head.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

namespace {

/// Makes `Columns` columns of a prediction of 5 rows, 2 rows of each sample a call: column c of row r of a sample with
/// the last input x is x + 10 r + c / 10. Its output is that of the layer before.
template <int Columns, int Rows = 5, class Number = float>
struct columns {
  template <class In>
  struct on {
    using output = detail::part<In, 0>;
    static constexpr int last = detail::parts<In> - 1;
    static constexpr buffer extras[] = {{"not predicted", 3, dtype::float32},
                                        {"columns", std::size_t{2} * Columns, dtype_of<Number>}};
    static constexpr int predicted = 1;
    static constexpr row_blocks predicted_rows{Rows, 2};

    struct make {
      const float* in;
      Number* into;
      int first;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
        const std::ptrdiff_t row = first + i / Columns, column = i % Columns;
        into[i] = Number(in[row / Rows]) + Number(10 * (row % Rows)) + Number(column) / 10;
      }
    };
    static void predict(const auto& c, const auto& a) {
      const int first = a.first_predicted_row(), left = a.samples() * Rows - first, block = 2 * a.samples();
      c.each(std::ptrdiff_t{left < block ? left : block} * Columns,
             make{a.template in<last>(), a.template extra<1, Number>(), first});
    }
    static void forward(const auto& c, const auto& a) { c.copy(a.samples(), a.in(), a.out()); }
    static void backward_input(const auto& c, const auto& a) {
      if (a.in_gradient() != nullptr) c.copy(a.samples(), a.out_gradient(), a.in_gradient());
      if constexpr (last > 0)
        if (a.template in_gradient<1>() != nullptr) c.fill(a.samples(), 0.0F, a.template in_gradient<1>());
    }
  };
};

/// The sum of its inputs, which is no prediction.
struct sum_of_inputs {
  template <class In>
  struct on {
    using output = bundle<>;
    static constexpr bool predicts = false;
    static constexpr partial partials[] = {"loss", "weight"};
    struct one {
      GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t) const { return 1; }
    };
    struct number_of {
      const float* in;
      GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const { return in[i]; }
    };
    static void forward(const auto& c, const auto& a) {
      if (a.partials() == nullptr) return;
      c.sum(a.samples(), number_of{a.in()}, a.partials());
      c.sum(a.samples(), one{}, a.partials() + 1);
    }
    static void backward_input(const auto& c, const auto& a) { c.fill(a.samples(), 1.0F, a.in_gradient()); }
  };
};

struct uneven : model<input<float, 1>, linear<1>, stash<"x">, columns<3>, pop<"x">, columns<1>, pop<"x">, columns<4>,
                      sum_of_inputs> {};
/// A layer reads what another one writes in forward alone.
struct read_on : model<input<float, 1>, columns<3>, linear<1>, columns<1>, sum_of_inputs> {};
struct nothing : model<input<float, 1>, linear<1>, sum_of_inputs> {};
struct rows_differ : model<input<float, 1>, columns<3>, columns<3, 4>, sum_of_inputs> {};
struct types_differ : model<input<float, 1>, columns<3>, columns<3, 5, double>, sum_of_inputs> {};
/// A loss that reads a prediction: the layer before it runs forward, as any other.
struct ordinary : model<input<float, 1>, columns<3>, linear<2>, softmax_cross_entropy> {};
struct sliced : model<input<std::int32_t, 37>, embedding<23, 4>, token_head<23, slices<3>>> {};
struct whole : model<input<std::int32_t, 37>, embedding<23, 4>, token_head<23>> {};

bool makes(const network& net, int layer) { return detail::makes_columns(net, layer); }

}  // namespace

TEST_CASE("columns are those of the layers that make them, in their order") {
  const network& net = network_of<uneven>;
  CHECK((!makes(net, 0) && makes(net, 1) && makes(net, 2) && makes(net, 3) && !makes(net, 4)));
  const auto in_row = [&](int layer) {
    const detail::column_range at = detail::columns_in_row(net, layer);
    return std::vector<std::size_t>{at.first, at.bytes, at.of_row};
  };
  CHECK(in_row(1) == std::vector<std::size_t>{0, 12, 32});
  CHECK(in_row(2) == std::vector<std::size_t>{12, 4, 32});
  CHECK(in_row(3) == std::vector<std::size_t>{16, 16, 32});
  const auto parts = detail::predicted_parts(net);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].size == 5 * 8);
  CHECK(parts[0].type == dtype::float32);
}

TEST_CASE("a head in slices makes rows of the whole head") {
  CHECK(detail::predicted_parts(network_of<sliced>).front().size == 37 * 23);
  CHECK(detail::predicted_parts(network_of<whole>).front().size == 37 * 23);
  CHECK((makes(network_of<sliced>, 3) && !makes(network_of<sliced>, 4)));
  for (int l = 0; l < layers_of<whole>; ++l) CHECK_FALSE(makes(network_of<whole>, l));
}

TEST_CASE("rows go to their columns") {
  std::vector<std::byte> from(6), into(12, std::byte{9});
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i);
  detail::copy_columns(3, 2, from.data(), 2, into.data() + 1, 4);
  std::vector<int> found;
  for (const std::byte b : into) found.push_back(std::to_integer<int>(b));
  CHECK(found == std::vector<int>{9, 0, 1, 9, 9, 2, 3, 9, 9, 4, 5, 9});
}

TEST_CASE("layers of your own make the columns of a prediction, in every number of stages") {
  for (int stages = 1; stages <= layers_of<uneven>; ++stages)
    for (const int samples : {7, 1}) {
      CAPTURE(stages);
      trainer<uneven, sgd> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 4}, sgd{});
      training.set_parameter(0, "weight", std::vector<float>{100});
      training.set_parameter(0, "bias", std::vector<float>{0});
      std::vector<float> in;
      for (int i = 0; i < samples; ++i) in.push_back(static_cast<float>(i + 1));
      const tensor_rows rows = training.predict(batch(samples).with("inputs", in));
      for (int s = 0; s < samples; ++s)
        for (int r = 0; r < 5; ++r)
          for (int c = 0; c < 8; ++c) {
            const int own = c < 3 ? c : c < 4 ? c - 3 : c - 4;  // of the layer that makes it
            CHECK(rows.of(s)[static_cast<std::size_t>(8 * r + c)] ==
                  static_cast<float>(100 * (s + 1) + 10 * r) + static_cast<float>(own) / 10);
          }
    }
}

TEST_CASE("a layer before a loss that reads a prediction runs forward") {
  trainer<ordinary, sgd> training({.micro_batch_size = 4}, sgd{});
  const std::vector<float> in{1, 2};
  training.watch(0);
  const tensor_rows rows = training.predict(batch(2).with("inputs", in));
  CHECK(rows.all().size() == 4);
  CHECK(training.activation(0).all()[1] == 2);
}

TEST_CASE("a model without a prediction, and columns of unequal rows, are errors that name the layer") {
  const std::vector<float> in{1, 2};
  const auto message = [&]<class Net>(Net) -> std::string {
    trainer<Net, sgd> training({.micro_batch_size = 4}, sgd{});
    try {
      training.predict(batch(2).with("inputs", in));
    } catch (const error& found) {
      return found.what();
    }
    return "no error";
  };
  const auto says = [&](auto net, const char* what) {
    const std::string found = message(net);
    CAPTURE(found);
    CHECK(found.find(what) != std::string::npos);
  };
  says(nothing{}, "predict: the loss reads no prediction, and no layer before it makes one");
  says(nothing{}, "layer 1");
  says(rows_differ{}, "columns of 4 rows of float, and those before it of 5 rows of float");
  says(rows_differ{}, "layer 1");
  says(read_on{}, "predict: the layer reads what ");
  says(read_on{}, "layer 1");
  says(types_differ{}, "columns of 5 rows of double, and those before it of 5 rows of float");
}
