#pragma once

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/share.hpp>
#include <gpipe/layer/contract/window.hpp>
#include <gpipe/layer/loss/cross_entropy_options.hpp>
#include <gpipe/layer/pooling/global_average_pool.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/layer/shape/multiply.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

#if GPIPE_COMPILED_SOURCE & 6
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/leaky_relu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/attention/vocabulary_slice.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/convolution/conv_transpose2d.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/linear/gated_feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/carried_cross_entropy.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/normalization/group_norm.hpp>
#include <gpipe/layer/normalization/instance_norm.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/normalization/rms_norm.hpp>
#include <gpipe/layer/pooling/average_pool.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/layer/regularization/channel_dropout.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/layer/shape/pad.hpp>
#include <gpipe/layer/shape/upsample.hpp>
#endif

// The kinds are declared here and defined by their layers, which a program includes if it uses them.
namespace gpipe {

struct gelu;
struct exact_gelu;
struct relu;
struct silu;
template <class Function>
struct pointwise_stored;

namespace detail {

template <class Function, int Forward, int Backward>
struct pointwise_by_value;
template <double_bits Slope>
struct leaky_function;
template <class T, bool Padded>
struct attention_kernels;
template <class T, height_width Window>
struct average_pool_kernels;
template <class T, bool SideBySide>
struct batch_norm_kernels;
template <class T, cross_entropy Settings>
struct carried_cross_entropy_kernels;
template <class T>
struct channel_dropout_kernels;
template <class T, bool Transpose>
struct convolution_kernels;
template <class T, cross_entropy Settings>
struct cross_entropy_kernels;
template <class T>
struct dropout_kernels;
template <class T>
struct embedding_kernels;
template <class T, class Function, bool Gated>
struct feed_forward_kernels;
template <class T>
struct group_norm_kernels;
template <class T>
struct instance_norm_kernels;
template <class T, int Count>
struct join_kernels;
template <class T>
struct learned_positions_kernels;
template <class T>
struct linear_kernels;
template <class T, height_width Window>
struct max_pool_kernels;
template <class T>
struct pad_kernels;
template <class T, int Width, bool Centered>
struct row_norm_kernels;
template <class T, cross_entropy Settings, bool First>
struct slice_kernels;
template <class T, class Loss>
struct token_head_kernels;
template <class T, height_width Factor>
struct upsample_kernels;

}  // namespace detail
}  // namespace gpipe

// The kernels in the compiled library: the kinds that ship, over floats, and the kinds of language models over bf16. A
// layer over another type, or a kind with other constants, is compiled with the program that uses it.
#if GPIPE_COMPILED_SOURCE & 2
#define GPIPE_FLOAT_KIND(...) template struct kernel_functions<bound_kind<__VA_ARGS__>, host::context>;
#else
#define GPIPE_FLOAT_KIND(...) extern template struct kernel_functions<bound_kind<__VA_ARGS__>, host::context>;
#endif
#if GPIPE_COMPILED_SOURCE & 4
#define GPIPE_BF16_KIND(...) template struct kernel_functions<bound_kind<__VA_ARGS__>, host::context>;
#else
#define GPIPE_BF16_KIND(...) extern template struct kernel_functions<bound_kind<__VA_ARGS__>, host::context>;
#endif

/// The kinds of language models, over numbers of a type.
// change: a layer
// change: a compiled definition; its kinds
// clang-format off
#define GPIPE_LANGUAGE_KINDS(kind, T) \
  kind(elements_kernels<pointwise_by_value<relu, 1, 1>, T, kept_value::output>) \
  kind(elements_kernels<pointwise_by_value<leaky_function<share<1000>(10).value>, 1, 1>, T, kept_value::output>) \
  kind(elements_kernels<pointwise_stored<gelu>, T, kept_value::derivative>) \
  kind(elements_kernels<pointwise_stored<exact_gelu>, T, kept_value::derivative>) \
  kind(elements_kernels<pointwise_stored<silu>, T, kept_value::derivative>) \
  kind(add::kind_for<T>) \
  kind(multiply::kind_for<T>) \
  kind(dropout_kernels<T>) \
  kind(linear_kernels<T>) \
  kind(feed_forward_kernels<T, gelu, false>) \
  kind(feed_forward_kernels<T, relu, false>) \
  kind(feed_forward_kernels<T, silu, true>) \
  kind(row_norm_kernels<T, 128, true>) \
  kind(row_norm_kernels<T, 256, true>) \
  kind(row_norm_kernels<T, 512, true>) \
  kind(row_norm_kernels<T, 768, true>) \
  kind(row_norm_kernels<T, 256, false>) \
  kind(row_norm_kernels<T, 512, false>) \
  kind(embedding_kernels<T>) \
  kind(learned_positions_kernels<T>) \
  kind(attention_kernels<T, false>) \
  kind(cross_entropy_kernels<T, cross_entropy{}>) \
  kind(token_head_kernels<T, cross_entropy_kernels<T, cross_entropy{}>>) \
  kind(slice_kernels<T, cross_entropy{}, true>) \
  kind(slice_kernels<T, cross_entropy{}, false>)
// clang-format on

namespace gpipe::detail {

GPIPE_LANGUAGE_KINDS(GPIPE_FLOAT_KIND, float)
// assumes: half precision is bf16
GPIPE_LANGUAGE_KINDS(GPIPE_BF16_KIND, bf16)

GPIPE_FLOAT_KIND(carried_cross_entropy_kernels<float, cross_entropy{}>)
GPIPE_FLOAT_KIND(channel_dropout_kernels<float>)
GPIPE_FLOAT_KIND(convolution_kernels<float, false>)
GPIPE_FLOAT_KIND(convolution_kernels<float, true>)
GPIPE_FLOAT_KIND(batch_norm_kernels<float, false>)
GPIPE_FLOAT_KIND(batch_norm_kernels<float, true>)
GPIPE_FLOAT_KIND(instance_norm_kernels<float>)
GPIPE_FLOAT_KIND(group_norm_kernels<float>)
GPIPE_FLOAT_KIND(global_average_pool::kind_for<float>)
GPIPE_FLOAT_KIND(max_pool_kernels<float, 2>)
GPIPE_FLOAT_KIND(max_pool_kernels<float, 3>)
GPIPE_FLOAT_KIND(average_pool_kernels<float, 2>)
GPIPE_FLOAT_KIND(average_pool_kernels<float, 3>)
GPIPE_FLOAT_KIND(join_kernels<float, 2>)
GPIPE_FLOAT_KIND(join_kernels<float, 3>)
GPIPE_FLOAT_KIND(join_kernels<float, 4>)
GPIPE_FLOAT_KIND(pad_kernels<float>)
GPIPE_FLOAT_KIND(upsample_kernels<float, 2>)

}  // namespace gpipe::detail

#undef GPIPE_LANGUAGE_KINDS
#undef GPIPE_FLOAT_KIND
#undef GPIPE_BF16_KIND
