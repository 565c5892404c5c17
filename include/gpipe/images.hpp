#pragma once

// Data of images: readers of files and folders, and images that move in every epoch.
#include <gpipe/train/data/augmented_pictures.hpp>
#include <gpipe/train/data/pictures/cifar10.hpp>
#include <gpipe/train/data/pictures/idx_pictures.hpp>
#include <gpipe/train/data/pictures/picture_folders.hpp>
