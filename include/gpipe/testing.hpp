#pragma once

// For tests of layers: the gradient check, a layer alone, and the rate that its products can reach. For experiments:
// slow links.
#include <gpipe/tools/testing/emulated_link.hpp>
#include <gpipe/tools/testing/gemm_rate.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>
