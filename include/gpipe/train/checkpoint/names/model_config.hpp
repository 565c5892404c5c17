#pragma once

#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe::detail {

/// The settings in a folder's config.json that change what a GPT-2 computes from the same arrays. A
/// setting that the file lacks has GPT2Config's default.
///
///     n_head                       the heads of every attention
///     activation_function          the function of every feed_forward, or gelu, relu or silu as a layer
///     layer_norm_epsilon           1e-5
///     scale_attn_weights, scale_attn_by_inverse_layer_idx    true, false: scores are divided by the root of the width
///
/// Throws if one of them differs from the model's, with both values. Ignores files of models other than GPT-2, and
/// layers of other kinds.
void require_config(const network& net, const std::string& folder, file_operations& files);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/names/model_config-inl.hpp>
#endif
