#pragma once

// change: a transport
// Processes over MPI: a library of its own, which who includes this links beside.
#include <gpipe/job.hpp>
#include <gpipe/mpi/job.hpp>
