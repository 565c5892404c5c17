#pragma once

// change: an image format
// Data of images: readers of files and folders, and images that move in every epoch.
#include <gpipe/tools/images/augmented_images.hpp>
#include <gpipe/tools/images/cifar10.hpp>
#include <gpipe/tools/images/idx_images.hpp>
#include <gpipe/tools/images/image_folders.hpp>
