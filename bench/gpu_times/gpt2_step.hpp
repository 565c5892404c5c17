#pragma once

namespace bench {

/// Seconds of a step of GPT-2, 124 million parameters, in bf16 with AdamW and a largest norm, on one stage: the median
/// of several.
double seconds_of_gpt2_step(int micro_batches, int micro_batch_size, bool graph);

}  // namespace bench
