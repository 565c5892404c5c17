#pragma once

// For tests of layers: the gradient check, a layer alone, and the rate that its products can reach.
#include <gpipe/device/host/gemm_rate.hpp>
#include <gpipe/device/host/gradient_check.hpp>
#include <gpipe/device/host/layer_fixture.hpp>
