# What gpipe needs from outside, found once for both roads: CMakeLists.txt includes this file in the tree,
# and it is installed as the package's config for find_package(gpipe).

set(GPIPE_LIBXSMM AUTO CACHE STRING "GEMM by libxsmm: AUTO takes it where it is found, ON insists on it, OFF goes without")
set_property(CACHE GPIPE_LIBXSMM PROPERTY STRINGS AUTO ON OFF)
set(GPIPE_CUDA AUTO CACHE STRING "GPUs by CUDA: AUTO takes a toolkit where it is found, ON insists on it, OFF goes without")
set_property(CACHE GPIPE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(GPIPE_MPI AUTO CACHE STRING "Processes over MPI: AUTO takes it where it is found, ON insists on it, OFF goes without")
set_property(CACHE GPIPE_MPI PROPERTY STRINGS AUTO ON OFF)

set(gpipe_missing "")

find_package(Threads QUIET)
if(NOT Threads_FOUND)
  string(APPEND gpipe_missing "\n  threads")
endif()

if(NOT TARGET gpipe::hana)
  add_library(gpipe::hana INTERFACE IMPORTED)
  find_package(Boost 1.74 CONFIG QUIET)
  if(TARGET Boost::headers)
    set_property(TARGET gpipe::hana PROPERTY INTERFACE_LINK_LIBRARIES Boost::headers)
  else()
    find_path(GPIPE_HANA_INCLUDE_DIR boost/hana/version.hpp)
    mark_as_advanced(GPIPE_HANA_INCLUDE_DIR)
    if(GPIPE_HANA_INCLUDE_DIR)
      set_property(TARGET gpipe::hana PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_HANA_INCLUDE_DIR}")
    else()
      string(APPEND gpipe_missing "\n  Boost.Hana, headers only: install libboost-dev (Debian, Ubuntu) or set Boost_DIR")
    endif()
  endif()
endif()

# The host path needs Thrust's headers and no CUDA: a distribution's own come first, a CUDA toolkit's serve as well.
if(NOT TARGET gpipe::thrust)
  add_library(gpipe::thrust INTERFACE IMPORTED)
  find_path(GPIPE_THRUST_INCLUDE_DIR thrust/version.h)
  find_path(GPIPE_THRUST_INCLUDE_DIR thrust/version.h
            PATHS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include/cccl include)
  mark_as_advanced(GPIPE_THRUST_INCLUDE_DIR)
  if(GPIPE_THRUST_INCLUDE_DIR)
    set_property(TARGET gpipe::thrust PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_THRUST_INCLUDE_DIR}")
  else()
    string(APPEND gpipe_missing
           "\n  Thrust, headers only: install libthrust-dev (Debian, Ubuntu) or set GPIPE_THRUST_INCLUDE_DIR")
  endif()
endif()

if(NOT GPIPE_LIBXSMM MATCHES "^(AUTO|ON|OFF)$")
  string(APPEND gpipe_missing "\n  a value of GPIPE_LIBXSMM, which is AUTO, ON or OFF and not '${GPIPE_LIBXSMM}'")
elseif(NOT TARGET gpipe::libxsmm)
  add_library(gpipe::libxsmm INTERFACE IMPORTED)
  set(gpipe_gemm "its own kernels")
  if(NOT GPIPE_LIBXSMM STREQUAL "OFF")
    find_path(GPIPE_LIBXSMM_INCLUDE_DIR libxsmm.h)
    find_library(GPIPE_LIBXSMM_LIBRARY xsmm)
    find_library(GPIPE_LIBXSMM_NOBLAS_LIBRARY xsmmnoblas)
    mark_as_advanced(GPIPE_LIBXSMM_INCLUDE_DIR GPIPE_LIBXSMM_LIBRARY GPIPE_LIBXSMM_NOBLAS_LIBRARY)
    if(GPIPE_LIBXSMM_INCLUDE_DIR AND GPIPE_LIBXSMM_LIBRARY AND GPIPE_LIBXSMM_NOBLAS_LIBRARY)
      set_target_properties(gpipe::libxsmm PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_LIBXSMM_INCLUDE_DIR}"
        INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_LIBXSMM=1
        INTERFACE_LINK_LIBRARIES
          "${GPIPE_LIBXSMM_LIBRARY};${GPIPE_LIBXSMM_NOBLAS_LIBRARY};Threads::Threads;${CMAKE_DL_LIBS};m")
      set(gpipe_gemm "libxsmm (${GPIPE_LIBXSMM_LIBRARY})")
    elseif(GPIPE_LIBXSMM STREQUAL "ON")
      string(APPEND gpipe_missing "\n  libxsmm, which GPIPE_LIBXSMM=ON insists on: install libxsmm-dev (Debian, Ubuntu), "
             "or set CMAKE_PREFIX_PATH, or take GPIPE_LIBXSMM=AUTO")
    else()
      string(APPEND gpipe_gemm ": libxsmm, which is faster, was not found (libxsmm-dev)")
    endif()
  endif()
  if(NOT gpipe_FIND_QUIETLY)
    message(STATUS "gpipe: matrix products by ${gpipe_gemm}")
  endif()
  unset(gpipe_gemm)
endif()

# For who trains on GPUs: links gpipe::cuda too, and between processes gpipe::nccl, and has nvcc compile what includes
# gpipe/device/cuda/cuda.hpp.
if(CMAKE_VERSION VERSION_LESS 3.26)  # which does not know nvcc's flag, and compiles as C++17 without a word
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
if(NOT GPIPE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  string(APPEND gpipe_missing "\n  a value of GPIPE_CUDA, which is AUTO, ON or OFF and not '${GPIPE_CUDA}'")
elseif(NOT GPIPE_CUDA STREQUAL "OFF" AND NOT TARGET gpipe::cuda)
  find_package(CUDAToolkit 12 QUIET)
  if(TARGET CUDA::cudart AND TARGET CUDA::cublasLt AND TARGET CUDA::nvtx3)
    add_library(gpipe::cuda INTERFACE IMPORTED)
    set_property(TARGET gpipe::cuda PROPERTY INTERFACE_LINK_LIBRARIES "CUDA::cudart;CUDA::cublasLt;CUDA::nvtx3")
    # NCCL's own config comes first; else it lies beside the toolkit, or under the name of its run-time package.
    find_package(NCCL CONFIG QUIET)
    if(NOT TARGET NCCL::nccl)
      find_path(GPIPE_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
      find_library(GPIPE_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
      mark_as_advanced(GPIPE_NCCL_INCLUDE_DIR GPIPE_NCCL_LIBRARY)
      if(GPIPE_NCCL_INCLUDE_DIR AND GPIPE_NCCL_LIBRARY)
        add_library(NCCL::nccl INTERFACE IMPORTED)
        set_target_properties(NCCL::nccl PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_NCCL_INCLUDE_DIR}"
                                                    INTERFACE_LINK_LIBRARIES "${GPIPE_NCCL_LIBRARY}")
      endif()
    endif()
    if(TARGET NCCL::nccl)
      add_library(gpipe::nccl INTERFACE IMPORTED)
      set_property(TARGET gpipe::nccl PROPERTY INTERFACE_LINK_LIBRARIES "gpipe::cuda;NCCL::nccl")
    endif()
  elseif(GPIPE_CUDA STREQUAL "ON")
    string(APPEND gpipe_missing "\n  the CUDA toolkit, 12 or newer, with cuBLASLt, which GPIPE_CUDA=ON insists on: see "
           "https://developer.nvidia.com/cuda-downloads, or set CUDAToolkit_ROOT, or take GPIPE_CUDA=AUTO")
  endif()
endif()

# For who trains in several processes: links gpipe::mpi too, and includes gpipe/mpi.hpp.
if(NOT GPIPE_MPI MATCHES "^(AUTO|ON|OFF)$")
  string(APPEND gpipe_missing "\n  a value of GPIPE_MPI, which is AUTO, ON or OFF and not '${GPIPE_MPI}'")
elseif(NOT GPIPE_MPI STREQUAL "OFF" AND NOT TARGET gpipe::mpi)
  set(MPI_CXX_SKIP_MPICXX ON)  # its C++ bindings are not used
  find_package(MPI QUIET COMPONENTS CXX)
  if(TARGET MPI::MPI_CXX)
    add_library(gpipe::mpi INTERFACE IMPORTED)
    set_target_properties(gpipe::mpi PROPERTIES INTERFACE_LINK_LIBRARIES MPI::MPI_CXX
                                                INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_MPI=1)
  elseif(GPIPE_MPI STREQUAL "ON")
    string(APPEND gpipe_missing "\n  MPI, which GPIPE_MPI=ON insists on: install libopenmpi-dev and openmpi-bin (Debian, "
           "Ubuntu), or set MPI_HOME, or take GPIPE_MPI=AUTO")
  endif()
endif()

if(gpipe_missing)
  set(gpipe_FOUND FALSE)
  set(gpipe_NOT_FOUND_MESSAGE "gpipe lacks:${gpipe_missing}")
elseif(CMAKE_FIND_PACKAGE_NAME STREQUAL "gpipe")  # installed: the tree makes the target itself
  include("${CMAKE_CURRENT_LIST_DIR}/gpipe-targets.cmake")
endif()
unset(gpipe_missing)
