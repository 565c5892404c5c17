#pragma once

// Workers on cores of their own by hwloc: a library of its own, which a program that includes this links, too.
#include <gpipe/mpi/hwloc/core_binding.hpp>
