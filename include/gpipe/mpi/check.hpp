#pragma once

#include <gpipe/core/error.hpp>

#define OMPI_SKIP_MPICXX 1  // the C++ bindings are obsolete and need another library
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace gpipe::mpi {

/// Throws if a call of MPI has failed.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  const auto fail = [&]() GPIPE_COLD {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    detail::throw_error({call, " failed: ", text}, {"see MPI's messages, and check that all processes run one build"});
  };
  fail();
}

}  // namespace gpipe::mpi
