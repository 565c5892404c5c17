#pragma once

#include "../points.hpp"

struct net : gpipe::model<gpipe::input<float, 2>, gpipe::linear<16>, gpipe::relu, gpipe::linear<2>,
                          gpipe::softmax_cross_entropy> {};

/// The first bias of the last linear layer.
float last_bias(gpipe::trainer<net, gpipe::adam>& training);
