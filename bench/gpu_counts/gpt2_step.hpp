#pragma once

#include "support/emulated_gpu/counts.hpp"

#include <string>
#include <vector>

namespace bench {

/// The launches of a step of GPT-2, 124 million parameters, in bf16 with AdamW and a largest norm, on one stage.
std::vector<emulated::launch_counts> launches_of_gpt2_step(int micro_batches, int micro_batch_size);

/// The prediction of plans for its micro-batch on the a100 or the h100, without launches, in seconds.
double predicted_of_gpt2(const std::string& gpu, int micro_batch_size);

}  // namespace bench
