#pragma once

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

// The kernels that the compiled library has: those of the kinds that ship, over floats, and those of language models
// over bf16. A layer over another type, or of a kind with other constants, is compiled with the program that uses it.
#if GPIPE_COMPILED_SOURCE
#define GPIPE_HOST_KIND(...) template struct kernel_functions<bound_kind<__VA_ARGS__>, host::context>;
#else
#define GPIPE_HOST_KIND(...) extern template struct kernel_functions<bound_kind<__VA_ARGS__>, host::context>;
#endif

namespace gpipe::detail {

GPIPE_HOST_KIND(relu::kind_for<float>)
GPIPE_HOST_KIND(leaky_relu<>::kind_for<float>)
GPIPE_HOST_KIND(gelu::kind_for<float>)
GPIPE_HOST_KIND(silu::kind_for<float>)
GPIPE_HOST_KIND(add::kind_for<float>)
GPIPE_HOST_KIND(multiply::kind_for<float>)
GPIPE_HOST_KIND(dropout_kernels<float>)
GPIPE_HOST_KIND(linear_kernels<float>)
GPIPE_HOST_KIND(feed_forward_kernels<float, gelu>)
GPIPE_HOST_KIND(feed_forward_kernels<float, relu>)
GPIPE_HOST_KIND(gated_feed_forward_kernels<float>)
GPIPE_HOST_KIND(layer_norm_kernels<float>)
GPIPE_HOST_KIND(rms_norm_kernels<float>)
GPIPE_HOST_KIND(embedding_kernels<float>)
GPIPE_HOST_KIND(learned_positions_kernels<float>)
GPIPE_HOST_KIND(attention_kernels<float, false>)
GPIPE_HOST_KIND(cross_entropy_kernels<float, cross_entropy{}>)
GPIPE_HOST_KIND(token_head_kernels<float, cross_entropy_kernels<float, cross_entropy{}>>)
GPIPE_HOST_KIND(channel_dropout_kernels<float>)
GPIPE_HOST_KIND(convolution_kernels<float, false>)
GPIPE_HOST_KIND(convolution_kernels<float, true>)
GPIPE_HOST_KIND(batch_norm_kernels<float, false>)
GPIPE_HOST_KIND(batch_norm_kernels<float, true>)
GPIPE_HOST_KIND(instance_norm_kernels<float>)
GPIPE_HOST_KIND(global_average_pool::kind_for<float>)
GPIPE_HOST_KIND(max_pool_kernels<float, 2>)
GPIPE_HOST_KIND(max_pool_kernels<float, 3>)
GPIPE_HOST_KIND(average_pool_kernels<float, 2>)
GPIPE_HOST_KIND(average_pool_kernels<float, 3>)
GPIPE_HOST_KIND(join_kernels<float, 2>)
GPIPE_HOST_KIND(join_kernels<float, 3>)
GPIPE_HOST_KIND(join_kernels<float, 4>)
GPIPE_HOST_KIND(pad_kernels<float>)
GPIPE_HOST_KIND(upsample_kernels<float>)

GPIPE_HOST_KIND(relu::kind_for<bf16>)
GPIPE_HOST_KIND(leaky_relu<>::kind_for<bf16>)
GPIPE_HOST_KIND(gelu::kind_for<bf16>)
GPIPE_HOST_KIND(silu::kind_for<bf16>)
GPIPE_HOST_KIND(add::kind_for<bf16>)
GPIPE_HOST_KIND(multiply::kind_for<bf16>)
GPIPE_HOST_KIND(dropout_kernels<bf16>)
GPIPE_HOST_KIND(linear_kernels<bf16>)
GPIPE_HOST_KIND(feed_forward_kernels<bf16, gelu>)
GPIPE_HOST_KIND(feed_forward_kernels<bf16, relu>)
GPIPE_HOST_KIND(gated_feed_forward_kernels<bf16>)
GPIPE_HOST_KIND(layer_norm_kernels<bf16>)
GPIPE_HOST_KIND(rms_norm_kernels<bf16>)
GPIPE_HOST_KIND(embedding_kernels<bf16>)
GPIPE_HOST_KIND(learned_positions_kernels<bf16>)
GPIPE_HOST_KIND(attention_kernels<bf16, false>)
GPIPE_HOST_KIND(cross_entropy_kernels<bf16, cross_entropy{}>)
GPIPE_HOST_KIND(token_head_kernels<bf16, cross_entropy_kernels<bf16, cross_entropy{}>>)

}  // namespace gpipe::detail

#undef GPIPE_HOST_KIND
