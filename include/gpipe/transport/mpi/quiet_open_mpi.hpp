#pragma once

#include <gpipe/core/config.hpp>

#include <dlfcn.h>

namespace gpipe::mpi {

/// While this object exists, Open MPI prints no messages of its own about connections that end. It hands each message
/// to its daemon on this host and waits for the answer, inside of MPI_Test. A daemon that has lost mpirun or another
/// host ends and gives none, so that the process could not report the loss, nor end by itself.
class quiet_open_mpi {
 public:
  GPIPE_COLD quiet_open_mpi() {
    at_ = static_cast<print*>(dlsym(RTLD_DEFAULT, "opal_show_help"));  // null: another MPI
    if (at_ == nullptr) return;
    before_ = *at_;
    *at_ = drop;
  }
  ~quiet_open_mpi() {
    if (at_ != nullptr) *at_ = before_;
  }
  quiet_open_mpi(const quiet_open_mpi&) = delete;
  quiet_open_mpi& operator=(const quiet_open_mpi&) = delete;

 private:
  using print = int (*)(const char* file, const char* topic, int has_header, ...);
  static int drop(const char*, const char*, int, ...) { return 0; }

  print* at_ = nullptr;
  print before_ = nullptr;
};

}  // namespace gpipe::mpi
