// compiled: alone
// optimize: kernels

// Law: training in float32 has the same bits on every processor with a fused multiply-add, x86-64 or arm64, with every
// compiler, -march, -O level and -ffp-contract, with and without libxsmm. For each network the hash of its parameters
// after five steps, of the five losses and of predictions is known. The builds in instruction_sets.cmake compare them
// too. To change bits on purpose, take over the hashes that this test prints, and list the kernels under "Changed bits"
// in CHANGELOG.md.

#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/data.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>

using namespace gpipe;

namespace {

struct perceptron
    : model<input<float, 20>, linear<48>, gelu, repeat<2, residual<layer_norm, linear<33>, relu, linear<48>>>,
            dropout<10>, linear<10>, softmax_cross_entropy> {};

struct activations : model<input<float, 20>, linear<24>, silu, linear<31>, exact_gelu, linear<24>, tanh_activation,
                           linear<18>, sigmoid_activation, linear<24>, leaky_relu<0.1>, gated<silu>, linear<10>,
                           softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1, .clip = 5}>> {};

struct regression : model<input<float, 20>, linear<40>, gelu, rms_norm, linear<12>, huber_loss<0.5>> {};

struct yes_or_no : model<input<float, 20>, linear<17>, gelu, linear<12>, binary_cross_entropy> {};

struct images
    : model<input<float, 432>, as_feature_map<3, 12, 12>, conv2d<10, 3, conv_options{.padding = 1}>, batch_norm<>, relu,
            max_pool<2, pool_options{.stride = 2}>,
            residual<conv2d<10, 3, conv_options{.padding = 1}>, group_norm<2>, silu, conv2d<10, 1, conv_options{}>>,
            conv2d<20, 3, conv_options{.stride = 2, .padding = 1}>, batch_norm<>, relu,
            average_pool<3, pool_options{.stride = 1, .padding = 1}>, global_average_pool, linear<10>,
            softmax_cross_entropy> {};

struct depthwise
    : model<input<float, 432>, as_feature_map<3, 12, 12>, conv2d<18, 3, conv_options{.stride = 2}>,
            affine_instance_norm<>, gelu, conv2d<18, 3, conv_options{.padding = 1, .groups = 18}>, instance_norm<>,
            conv_transpose2d<7, 2, conv_options{.stride = 2}>, relu, flatten, linear<10>, softmax_cross_entropy> {};

struct text : gpt2_with<2, 36, gpt2_options{.heads = 3, .tokens = 11, .vocabulary = 23, .dropout = 10}> {};

struct sliced_text : gpt2_with<1, 24, gpt2_options{.heads = 2, .tokens = 9, .vocabulary = 23, .head_slices = 3}> {};

struct rotary_text
    : model<input<std::int32_t, 11>, embedding<23, 40>,
            repeat<2,
                   residual<rms_norm,
                            attention<attention_options{.heads = 4, .key_heads = 2, .causal = true, .rotary = 10000}>>,
                   residual<rms_norm, gated_feed_forward<56>>>,
            rms_norm, linear<23, no_bias>, softmax_cross_entropy> {};

struct positions_text : model<input<std::int32_t, 11>, embedding<23, 32>, sinusoidal_positions,
                              residual<layer_norm, causal_attention<2>>, flatten, linear<10>, softmax_cross_entropy> {};

struct translation : encoder_decoder<1, 48, 2,
                                     encoder_decoder_options{.source_tokens = 9,
                                                             .target_tokens = 11,
                                                             .vocabulary = 23,
                                                             .width = 32,
                                                             .head_width = 12,
                                                             .dropout = 10,
                                                             .smoothing = 0.1,
                                                             .final_norms = true,
                                                             .tied_head = true}> {};

// Drawn one by one, so that a field has the same numbers everywhere.
std::vector<float> numbers(std::uint32_t stream, std::size_t count) {
  std::vector<float> drawn(count);
  for (std::size_t i = 0; i < count; ++i)
    drawn[i] = 2 * uniform(draw({11, 0, stream, 0}, 0, static_cast<std::uint32_t>(i)).word[0]) - 1;
  return drawn;
}
std::vector<std::int32_t> integers(std::uint32_t stream, std::size_t count, std::uint32_t below) {
  std::vector<std::int32_t> drawn(count);
  for (std::size_t i = 0; i < count; ++i)
    drawn[i] = static_cast<std::int32_t>(draw({11, 0, stream, 0}, 0, static_cast<std::uint32_t>(i)).word[0] % below);
  return drawn;
}

constexpr int samples = 29, steps = 5;
constexpr plan_options plan{.stages = 2, .micro_batches = 3, .micro_batch_size = 10};

template <class Net, class Optimizer>
std::string hash_of(const dataset& data, const Optimizer& optimizer, const training_options& options = {}) {
  trainer<Net, Optimizer> training(plan, optimizer, options);
  detail::hash hash;
  const auto add = [&hash](const auto& value) { hash.add(reinterpret_cast<const std::byte*>(&value), sizeof value); };
  auto batches = data.batches(samples);
  for (int step = 0; step < steps; ++step)
    for (const batch& part : batches) add(training.step(part).loss);
  add(training.evaluate(data).loss);
  add(training.parameter_hash());
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash.value()));
  return text;
}

dataset rows() {
  return dataset{}.with("inputs", 20, numbers(1, samples * 20)).with("labels", 1, integers(2, samples, 10));
}
dataset pixels() {
  return dataset{}
      .with("inputs", 12 * 12 * 3, numbers(1, samples * 12 * 12 * 3))
      .with("labels", 1, integers(2, samples, 10));
}
dataset tokens(std::size_t labels, std::uint32_t classes) {
  return dataset{}
      .with("inputs", 11, integers(1, samples * 11, 23))
      .with("labels", labels, integers(2, samples * labels, classes));
}

// change: the order of a sum; the hashes
void same_bits(const char* network, const std::string& found, const std::string& known) {
#if GPIPE_HAS_FMA
  CHECK_MESSAGE(found == known, network << " has " << found << ", and everywhere else " << known);
#else
  MESSAGE(network << " has " << found << " without a fused multiply-add; with one " << known);
#endif
}

}  // namespace

TEST_CASE("everywhere: networks of rows") {
  same_bits("perceptron", hash_of<perceptron>(rows(), adam{.learning_rate = 1e-2}, {.max_grad_norm = 1}),
            "6ad83356f4776cea");
  same_bits("activations",
            hash_of<activations>(rows(), rmsprop{.learning_rate = 1e-3, .momentum = 0.9},
                                 {.learning_rate_schedule = cosine{7}, .average_weights = 0.9}),
            "1e8eee63777f07b9");
  const auto targets = numbers(3, samples * 12);
  same_bits("regression",
            hash_of<regression>(dataset{}.with("inputs", 20, numbers(1, samples * 20)).with("targets", 12, targets),
                                sgd{.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 1e-2, .nesterov = true}),
            "5aa05ce90d2e5efd");
  std::vector<float> answers(targets.size());
  for (std::size_t i = 0; i < answers.size(); ++i) answers[i] = targets[i] > 0 ? 1.0F : 0.0F;
  same_bits("yes_or_no",
            hash_of<yes_or_no>(dataset{}.with("inputs", 20, numbers(1, samples * 20)).with("labels", 12, answers),
                               lion{.learning_rate = 1e-3}),
            "0fa390176be0f572");
}

TEST_CASE("everywhere: networks of images") {
  same_bits("images", hash_of<images>(pixels(), adamw{.learning_rate = 1e-3}), "9a43f108fdd6f6aa");
  same_bits("depthwise", hash_of<depthwise>(pixels(), adam{.learning_rate = 1e-3}), "9e98aa3265ed8ee2");
}

TEST_CASE("everywhere: networks of tokens") {
  same_bits("text",
            hash_of<text>(tokens(11, 23), adamw{.learning_rate = 1e-3},
                          {.learning_rate_schedule = warm_up{3}, .max_grad_norm = 1}),
            "a82721fc037143e3");
  const auto nine =
      dataset{}.with("inputs", 9, integers(1, samples * 9, 23)).with("labels", 9, integers(2, samples * 9, 23));
  same_bits("sliced_text", hash_of<sliced_text>(nine, adam{.learning_rate = 1e-3}), "f4746fc0ca458847");
  same_bits("rotary_text", hash_of<rotary_text>(tokens(11, 23), adafactor{}), "41b61d4d2535e3f9");
  same_bits("positions_text", hash_of<positions_text>(tokens(1, 10), adam{.learning_rate = 1e-3}), "2305fb2b087b477b");
  auto lengths = integers(3, samples, 9);
  for (std::int32_t& length : lengths) ++length;
  const auto pairs = dataset{}
                         .with("inputs", 9, integers(1, samples * 9, 23))
                         .with("lengths", 1, lengths)
                         .with("targets", 11, integers(4, samples * 11, 23))
                         .with("labels", 11, integers(2, samples * 11, 23));
  same_bits("translation", hash_of<translation>(pairs, adam{.learning_rate = 1e-3}), "a313ee0a01f7beee");
}
