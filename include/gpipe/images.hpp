#pragma once

// Data of images: readers of files and folders, and images that move in every epoch.
#include <gpipe/train/data/augmented_images.hpp>
#include <gpipe/train/data/images/cifar10.hpp>
#include <gpipe/train/data/images/idx_images.hpp>
#include <gpipe/train/data/images/image_folders.hpp>
