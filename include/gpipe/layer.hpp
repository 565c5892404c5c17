#pragma once

// The layers that we ship, and what a layer of your own needs.
#include <gpipe/layer/activation/gated.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/linear/gated_feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/binary_cross_entropy.hpp>
#include <gpipe/layer/loss/mean_squared_error.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/normalization/rms_norm.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/layer/shape/flatten.hpp>
#include <gpipe/layer/shape/multiply.hpp>
#include <gpipe/layer/shape/reshape.hpp>
#include <gpipe/layer/shape/split.hpp>
