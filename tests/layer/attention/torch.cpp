// optimize: yes

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/cross_attention.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/reference/attention.hpp"
#include "support/torch_steps.hpp"

// Three steps of training with attention give PyTorch's losses and parameters: tests/support/reference/attention.py
// says what is trained.

using namespace gpipe;
namespace known = reference::attention;

namespace {

template <class T>
using tokens = input<T, known::tokens, known::features>;

template <class T>
struct causal : model<tokens<T>, linear<known::width>,
                      attention<attention_options{.heads = 2, .causal = true, .padded = true}>, softmax_cross_entropy> {
};
template <class T>
struct cross : model<tokens<T>, linear<known::width>, stash<"memory">, linear<known::width>, pop<"memory">,
                     cross_attention<attention_options{.heads = 2}>, softmax_cross_entropy> {};
template <class T>
struct two_widths
    : model<tokens<T>, linear<known::width>, from<"memory", tensor<T, known::key_tokens, known::key_width>>,
            with_field<"lengths", "key_lengths", cross_attention<attention_options{.heads = 2, .padded = true}>>,
            softmax_cross_entropy> {};
template <class T>
struct grouped : model<tokens<T>, linear<known::width>,
                       attention<attention_options{
                           .heads = 4, .key_heads = 2, .head_width = 6, .causal = true, .bias = false, .rotary = 100}>,
                       softmax_cross_entropy> {};

template <class Model, class T>
void trains_as_torch(std::span<const double> losses, std::span<const double> after, int stages) {
  trainer<Model, sgd> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 2},
                               sgd{.learning_rate = known::rate});
  laws::set_streams<T>(training, 3);
  const auto x = laws::stream_of<T>(1, std::size_t{known::samples} * known::tokens * known::features);
  const auto memory = laws::stream_of<T>(2, std::size_t{known::samples} * known::key_tokens * known::key_width);
  const std::vector<std::int32_t> lengths(std::begin(known::lengths), std::end(known::lengths));
  const std::vector<std::int32_t> key_lengths(std::begin(known::key_lengths), std::end(known::key_lengths));
  std::vector<std::int32_t> labels;
  for (int i = 0; i < known::samples * known::tokens; ++i) labels.push_back(i * 5 % known::width);
  batch all(known::samples);
  all.with("inputs", x).with("labels", labels);
  if constexpr (std::is_same_v<Model, causal<T>>) all.with("lengths", lengths);
  if constexpr (std::is_same_v<Model, two_widths<T>>) all.with("memory", memory).with("key_lengths", key_lengths);
  laws::has_torch_steps<T>(training, all, losses, after);
}

}  // namespace

TEST_CASE_TEMPLATE("three steps with causal, padded attention are those of torch.nn.MultiheadAttention", T, double,
                   float) {
  for (const int stages : {1, 2}) trains_as_torch<causal<T>, T>(known::causal_losses, known::causal_after, stages);
}
TEST_CASE_TEMPLATE("three steps with attention to other tokens are those of torch.nn.MultiheadAttention", T, double,
                   float) {
  for (const int stages : {1, 3}) trains_as_torch<cross<T>, T>(known::cross_losses, known::cross_after, stages);
}
TEST_CASE_TEMPLATE("three steps with keys of another width are those of torch.nn.MultiheadAttention", T, double,
                   float) {
  for (const int stages : {1, 2})
    trains_as_torch<two_widths<T>, T>(known::two_widths_losses, known::two_widths_after, stages);
}
TEST_CASE_TEMPLATE("three steps with grouped heads and rotary positions are those of PyTorch", T, double, float) {
  for (const int stages : {1, 2}) trains_as_torch<grouped<T>, T>(known::grouped_losses, known::grouped_after, stages);
}
