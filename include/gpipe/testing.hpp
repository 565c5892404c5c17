#pragma once

// For tests of layers: the gradient check, a layer alone, and the rate that its products can reach.
#include <gpipe/testing/gemm_rate.hpp>
#include <gpipe/testing/gradient_check.hpp>
#include <gpipe/testing/layer_fixture.hpp>
