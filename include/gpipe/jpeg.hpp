#pragma once

// Images in JPEG files by libjpeg: a library of its own, which who includes this links beside.
#include <gpipe/tools/images/jpeg.hpp>
