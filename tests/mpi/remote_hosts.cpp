#include <gpipe/mpi/remote_hosts.hpp>

#include <doctest/doctest.h>

using gpipe::mpi::has_replaceable_help;

TEST_CASE("only the versions of Open MPI whose help is a variable are made quiet") {
  CHECK(has_replaceable_help("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"));
  CHECK(has_replaceable_help("Open MPI v5.0.11, package: Open MPI distribution, ident: 5.0.11"));
  CHECK(has_replaceable_help("Open MPI v3.1.6, package: x"));
  // There it is a function, and writing through the symbol is a segmentation fault.
  CHECK(!has_replaceable_help("Open MPI v6.0.0rc1, package: Debian OpenMPI, ident: 6.0.0rc1"));
  CHECK(!has_replaceable_help("Open MPI v5.1.0a1, package: a branch after 5.0"));
  CHECK(!has_replaceable_help("Open MPI v10.0.0, package: x"));
  CHECK(!has_replaceable_help("Open MPI v"));
  CHECK(!has_replaceable_help("Open MPI"));
  CHECK(!has_replaceable_help("MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25 2026"));
  CHECK(!has_replaceable_help("Intel(R) MPI Library 2021.19 for Linux* OS\n"));
  CHECK(!has_replaceable_help(""));
}
