#pragma once

// For tests of layers: the gradient check, a layer alone, and the rate that its products can reach. For experiments:
// slow links.
#include <gpipe/testing/emulated_link.hpp>
#include <gpipe/testing/gemm_rate.hpp>
#include <gpipe/testing/gradient_check.hpp>
#include <gpipe/testing/layer_fixture.hpp>
