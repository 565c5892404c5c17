#pragma once

#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/file/mapped_file.hpp>
#include <gpipe/tools/images/image_set.hpp>

namespace gpipe {

/// Reads files of CIFAR-10's binary version (https://www.cs.toronto.edu/~kriz/cifar.html), such as data_batch_1.bin to
/// data_batch_5.bin, or test_batch.bin:
///
///     byte   0      1 ... 1024   ... 2048   ... 3072    then the next image
///            label  red          green      blue        each 32 x 32, row after row
///
/// Throws `error` unless there is a file, and each has whole images with labels from 0 to 9.
image_set read_cifar10(const std::vector<std::string>& paths);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/images/cifar10-inl.hpp>
#endif
