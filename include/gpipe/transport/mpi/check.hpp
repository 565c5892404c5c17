#pragma once

#include <gpipe/core/error.hpp>

#define OMPI_SKIP_MPICXX 1   // the C++ bindings, which are long dead, and need a library of their own
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace gpipe::mpi {

/// Throws if a call of MPI has failed.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  const auto told = [&]() GPIPE_COLD {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    detail::throw_error({call, " failed: ", text}, {"see what MPI says, and whether all processes are of one build"});
  };
  told();
}

}  // namespace gpipe::mpi
