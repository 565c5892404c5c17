#pragma once

// Pictures in PNG files by libpng: a library of its own, which who includes this links beside.
#include <gpipe/train/data/pictures/png.hpp>
