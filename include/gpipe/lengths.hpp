#pragma once

// One training for sequences of several lengths, and batches of one length each.
#include <gpipe/model/lengths.hpp>
#include <gpipe/train/data/batches_by_length.hpp>
