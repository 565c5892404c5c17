#pragma once

// The layers that we ship, and what a layer of your own needs.
#include <gpipe/layer/add.hpp>
#include <gpipe/layer/batch_norm.hpp>
#include <gpipe/layer/causal_attention.hpp>
#include <gpipe/layer/dropout.hpp>
#include <gpipe/layer/embedding.hpp>
#include <gpipe/layer/feed_forward.hpp>
#include <gpipe/layer/gelu.hpp>
#include <gpipe/layer/layer_norm.hpp>
#include <gpipe/layer/linear.hpp>
#include <gpipe/layer/pointwise.hpp>
#include <gpipe/layer/relu.hpp>
#include <gpipe/layer/reshape.hpp>
#include <gpipe/layer/softmax_cross_entropy.hpp>
#include <gpipe/layer/token_head.hpp>
