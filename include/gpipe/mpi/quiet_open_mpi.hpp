#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/mpi/check.hpp>

#include <cstddef>
#include <string_view>

#include <dlfcn.h>

namespace gpipe::mpi {

/// Whether `opal_show_help` is a variable with the address of a function, by the text of MPI_Get_library_version.
/// It is one in Open MPI up to 5.0; from 6.0 on it is the function itself. Libraries of both kinds have the same
/// soname, so a program may run with another version than it was compiled with.
constexpr bool has_replaceable_help(std::string_view library_version) {
  constexpr std::string_view name = "Open MPI v";
  if (!library_version.starts_with(name)) return false;
  library_version.remove_prefix(name.size());
  const auto digit = [&](std::size_t i) {
    return i < library_version.size() && library_version[i] >= '0' && library_version[i] <= '9';
  };
  if (!digit(0) || digit(1)) return false;
  const char major = library_version[0];
  return major < '5' || (major == '5' && library_version.starts_with("5.0."));
}

/// While this object exists, Open MPI up to 5.0 prints no messages about connections that end. It sends each message to
/// its daemon on this host and waits for the answer in MPI_Test. A daemon that has lost mpirun or another host ends
/// without an answer, so the process could not report the loss and would not end. Later versions have no such switch
/// and print their messages.
class quiet_open_mpi {
 public:
  GPIPE_COLD quiet_open_mpi() {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    check(MPI_Get_library_version(version, &length), "MPI_Get_library_version");
    if (!has_replaceable_help({version, static_cast<std::size_t>(length)})) return;
    help_ = static_cast<print*>(dlsym(RTLD_DEFAULT, "opal_show_help"));
    if (help_ == nullptr) return;
    before_ = *help_;
    *help_ = drop;
  }
  ~quiet_open_mpi() {
    if (help_ != nullptr) *help_ = before_;
  }
  quiet_open_mpi(const quiet_open_mpi&) = delete;
  quiet_open_mpi& operator=(const quiet_open_mpi&) = delete;

 private:
  using print = int (*)(const char* file, const char* topic, int has_header, ...);
  static int drop(const char*, const char*, int, ...) { return 0; }

  print* help_ = nullptr;
  print before_ = nullptr;
};

}  // namespace gpipe::mpi
