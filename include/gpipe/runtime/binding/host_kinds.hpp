#pragma once

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>

// The kernels, over floats, that the compiled library has: those of each kind that ships. A layer of another type, or
// of a kind with other constants, is compiled with the program that uses it.
#if GPIPE_COMPILED_SOURCE
#define GPIPE_HOST_KIND template
#else
#define GPIPE_HOST_KIND extern template
#endif

namespace gpipe::detail {

GPIPE_HOST_KIND struct kernel_functions<bound_kind<relu::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<leaky_relu<>::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<gelu::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<silu::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<add::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<multiply::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<dropout_kernels<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<channel_dropout_kernels<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<linear_kernels<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<convolution_kernels<float, false>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<convolution_kernels<float, true>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<batch_norm_kernels<float, false>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<batch_norm_kernels<float, true>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<instance_norm_kernels<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<global_average_pool::kind_for<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<max_pool_kernels<float, 2>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<max_pool_kernels<float, 3>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<average_pool_kernels<float, 2>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<average_pool_kernels<float, 3>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<join_kernels<float, 2>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<join_kernels<float, 3>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<join_kernels<float, 4>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<pad_kernels<float>>, host::context>;
GPIPE_HOST_KIND struct kernel_functions<bound_kind<upsample_kernels<float>>, host::context>;

}  // namespace gpipe::detail

#undef GPIPE_HOST_KIND
