#pragma once

// Images in PNG files by libpng: a library of its own, which who includes this links beside.
#include <gpipe/tools/images/png.hpp>
