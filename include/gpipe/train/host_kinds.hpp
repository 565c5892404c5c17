#pragma once

#include <gpipe/device/host/host.hpp>
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
#include <gpipe/layer/pooling/global_average_pool.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/layer/regularization/channel_dropout.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/layer/shape/multiply.hpp>
#include <gpipe/layer/shape/pad.hpp>
#include <gpipe/layer/shape/upsample.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

// The kernels that the compiled library has: those of the kinds that ship, over floats, and those of language models
// over bf16. A layer over another type, or of a kind with other constants, is compiled with the program that uses it.
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

namespace gpipe::detail {

GPIPE_FLOAT_KIND(relu::kind_for<float>)
GPIPE_FLOAT_KIND(leaky_relu<>::kind_for<float>)
GPIPE_FLOAT_KIND(gelu::kind_for<float>)
GPIPE_FLOAT_KIND(exact_gelu::kind_for<float>)
GPIPE_FLOAT_KIND(silu::kind_for<float>)
GPIPE_FLOAT_KIND(add::kind_for<float>)
GPIPE_FLOAT_KIND(multiply::kind_for<float>)
GPIPE_FLOAT_KIND(dropout_kernels<float>)
GPIPE_FLOAT_KIND(linear_kernels<float>)
GPIPE_FLOAT_KIND(feed_forward_kernels<float, gelu, false>)
GPIPE_FLOAT_KIND(feed_forward_kernels<float, relu, false>)
GPIPE_FLOAT_KIND(feed_forward_kernels<float, silu, true>)
GPIPE_FLOAT_KIND(layer_norm_kernels<float, 128>)
GPIPE_FLOAT_KIND(layer_norm_kernels<float, 256>)
GPIPE_FLOAT_KIND(layer_norm_kernels<float, 512>)
GPIPE_FLOAT_KIND(layer_norm_kernels<float, 768>)
GPIPE_FLOAT_KIND(rms_norm_kernels<float, 256>)
GPIPE_FLOAT_KIND(rms_norm_kernels<float, 512>)
GPIPE_FLOAT_KIND(embedding_kernels<float>)
GPIPE_FLOAT_KIND(learned_positions_kernels<float>)
GPIPE_FLOAT_KIND(attention_kernels<float, false>)
GPIPE_FLOAT_KIND(cross_entropy_kernels<float, cross_entropy{}>)
GPIPE_FLOAT_KIND(token_head_kernels<float, cross_entropy_kernels<float, cross_entropy{}>>)
GPIPE_FLOAT_KIND(slice_kernels<float, cross_entropy{}, true>)
GPIPE_FLOAT_KIND(slice_kernels<float, cross_entropy{}, false>)
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

GPIPE_BF16_KIND(relu::kind_for<bf16>)
GPIPE_BF16_KIND(leaky_relu<>::kind_for<bf16>)
GPIPE_BF16_KIND(gelu::kind_for<bf16>)
GPIPE_BF16_KIND(exact_gelu::kind_for<bf16>)
GPIPE_BF16_KIND(silu::kind_for<bf16>)
GPIPE_BF16_KIND(add::kind_for<bf16>)
GPIPE_BF16_KIND(multiply::kind_for<bf16>)
GPIPE_BF16_KIND(dropout_kernels<bf16>)
GPIPE_BF16_KIND(linear_kernels<bf16>)
GPIPE_BF16_KIND(feed_forward_kernels<bf16, gelu, false>)
GPIPE_BF16_KIND(feed_forward_kernels<bf16, relu, false>)
GPIPE_BF16_KIND(feed_forward_kernels<bf16, silu, true>)
GPIPE_BF16_KIND(layer_norm_kernels<bf16, 128>)
GPIPE_BF16_KIND(layer_norm_kernels<bf16, 256>)
GPIPE_BF16_KIND(layer_norm_kernels<bf16, 512>)
GPIPE_BF16_KIND(layer_norm_kernels<bf16, 768>)
GPIPE_BF16_KIND(rms_norm_kernels<bf16, 256>)
GPIPE_BF16_KIND(rms_norm_kernels<bf16, 512>)
GPIPE_BF16_KIND(embedding_kernels<bf16>)
GPIPE_BF16_KIND(learned_positions_kernels<bf16>)
GPIPE_BF16_KIND(attention_kernels<bf16, false>)
GPIPE_BF16_KIND(cross_entropy_kernels<bf16, cross_entropy{}>)
GPIPE_BF16_KIND(token_head_kernels<bf16, cross_entropy_kernels<bf16, cross_entropy{}>>)
GPIPE_BF16_KIND(slice_kernels<bf16, cross_entropy{}, true>)
GPIPE_BF16_KIND(slice_kernels<bf16, cross_entropy{}, false>)

}  // namespace gpipe::detail

#undef GPIPE_FLOAT_KIND
#undef GPIPE_BF16_KIND
