# Finds what gpipe needs from outside. CMakeLists.txt includes this file in the tree, and it is installed as the
# package's config for find_package(gpipe). Its components are
#     host      gpipe::gpipe, to plan and to train on the processor
#     compiled  gpipe::compiled, the same with the library that GPIPE_COMPILED=ON has built: programs compile faster
#     cuda      gpipe::cuda, for GPUs
#     nccl      gpipe::nccl, for GPUs of several processes
#     mpi       gpipe::mpi, for several processes
#     hwloc     gpipe::hwloc, to bind workers to cores
#     png       gpipe::png, to read PNG files
#     jpeg      gpipe::jpeg, to read JPEG files
#     sentencepiece  gpipe::sentencepiece, to train vocabularies of pieces and to cut texts into them
# find_package requires each component that it names and does not look for the others. If it names none, and in the
# tree, the options below choose the components. This file enables no language.

set(GPIPE_LIBXSMM AUTO CACHE STRING "GEMM by libxsmm: AUTO takes it where it is found, ON insists on it, OFF goes without")
# change: a device
set(GPIPE_CUDA AUTO CACHE STRING "GPUs by CUDA: AUTO takes a toolkit where it is found, ON insists on it, OFF goes without")
# change: a transport
set(GPIPE_MPI AUTO CACHE STRING "Processes over MPI: AUTO takes it where it is found, ON insists on it, OFF goes without")
set(GPIPE_HWLOC AUTO CACHE STRING "Workers on cores of their own by hwloc: AUTO takes it where it is found, ON insists on it, OFF goes without")
# change: an image format; with a library
set(GPIPE_PNG AUTO CACHE STRING "PNG files by libpng: AUTO takes it where it is found, ON insists on it, OFF goes without")
set(GPIPE_JPEG AUTO CACHE STRING "JPEG files by libjpeg: AUTO takes it where it is found, ON insists on it, OFF goes without")
set(GPIPE_SENTENCEPIECE AUTO CACHE STRING "Pieces of texts by SentencePiece: AUTO takes it where it is found, ON insists on it, OFF goes without")
set_property(CACHE GPIPE_LIBXSMM GPIPE_CUDA GPIPE_MPI GPIPE_HWLOC GPIPE_PNG GPIPE_JPEG GPIPE_SENTENCEPIECE
             PROPERTY STRINGS AUTO ON OFF)

set(gpipe_missing "")
foreach(gpipe_option IN ITEMS LIBXSMM CUDA MPI HWLOC PNG JPEG SENTENCEPIECE)
  if(NOT GPIPE_${gpipe_option} MATCHES "^(AUTO|ON|OFF)$")
    string(APPEND gpipe_missing "\n  a value of GPIPE_${gpipe_option}, which is AUTO, ON or OFF and not "
           "'${GPIPE_${gpipe_option}}'")
  endif()
endforeach()

# AUTO, ON or OFF for each part, and who insists on it.
set(gpipe_cuda ${GPIPE_CUDA})
set(gpipe_nccl ${GPIPE_CUDA})
set(gpipe_mpi ${GPIPE_MPI})
set(gpipe_hwloc ${GPIPE_HWLOC})
set(gpipe_png ${GPIPE_PNG})
set(gpipe_jpeg ${GPIPE_JPEG})
set(gpipe_sentencepiece ${GPIPE_SENTENCEPIECE})
set(gpipe_cuda_by "GPIPE_CUDA=ON insists on")
set(gpipe_mpi_by "GPIPE_MPI=ON insists on")
set(gpipe_hwloc_by "GPIPE_HWLOC=ON insists on")
set(gpipe_png_by "GPIPE_PNG=ON insists on")
set(gpipe_jpeg_by "GPIPE_JPEG=ON insists on")
set(gpipe_sentencepiece_by "GPIPE_SENTENCEPIECE=ON insists on")
if(gpipe_nccl STREQUAL "ON")
  set(gpipe_nccl AUTO)  # a toolkit serves without it
endif()
if(gpipe_FIND_COMPONENTS)
  set(gpipe_unnamed cuda nccl mpi hwloc png jpeg sentencepiece)
  list(REMOVE_ITEM gpipe_unnamed ${gpipe_FIND_COMPONENTS})
  foreach(gpipe_part IN LISTS gpipe_unnamed)
    set(gpipe_${gpipe_part} OFF)
  endforeach()
  foreach(gpipe_part IN LISTS gpipe_FIND_COMPONENTS)
    set(gpipe_option CUDA)
    if(gpipe_part MATCHES "^(mpi|hwloc|png|jpeg|sentencepiece)$")
      string(TOUPPER ${gpipe_part} gpipe_option)
    endif()
    if(NOT gpipe_part MATCHES "^(host|compiled|cuda|nccl|mpi|hwloc|png|jpeg|sentencepiece)$")
      if(gpipe_FIND_REQUIRED_${gpipe_part})
        string(APPEND gpipe_missing "\n  a component '${gpipe_part}': there are host, compiled, cuda, nccl, mpi, hwloc, png, "
               "jpeg and sentencepiece")
      endif()
    elseif(gpipe_part STREQUAL "compiled")
      if(gpipe_FIND_REQUIRED_compiled AND NOT EXISTS "${CMAKE_CURRENT_LIST_DIR}/gpipe-compiled-targets.cmake")
        string(APPEND gpipe_missing "\n  its component 'compiled': configure gpipe with GPIPE_COMPILED=ON and install it")
      endif()
    elseif(NOT gpipe_part STREQUAL "host" AND gpipe_FIND_REQUIRED_${gpipe_part})
      if(GPIPE_${gpipe_option} STREQUAL "OFF")
        string(APPEND gpipe_missing "\n  its component '${gpipe_part}', which GPIPE_${gpipe_option}=OFF goes without")
      else()
        set(gpipe_${gpipe_part} ON)
        set(gpipe_${gpipe_part}_by "its component '${gpipe_part}' is")
      endif()
    endif()
  endforeach()
  if(NOT gpipe_nccl STREQUAL "OFF" AND NOT gpipe_cuda STREQUAL "ON")
    set(gpipe_cuda ${gpipe_nccl})
    set(gpipe_cuda_by "its component 'nccl' needs")
  endif()
endif()

find_package(Threads QUIET)
if(NOT Threads_FOUND)
  string(APPEND gpipe_missing "\n  threads")
endif()

# C++20 for nvcc, too: CMake before 3.26 does not know its flag and compiles as C++17 without a word, and none gives one
# unless asked. A target carries it wherever it is linked from, which a variable would not.
if(NOT TARGET gpipe::dialect)
  add_library(gpipe::dialect INTERFACE IMPORTED)
  set(gpipe_older "$<VERSION_LESS:$<TARGET_PROPERTY:CUDA_STANDARD>,20>")
  if(CMAKE_VERSION VERSION_LESS 3.26)
    set(gpipe_older 1)
  endif()
  set_property(TARGET gpipe::dialect PROPERTY
               INTERFACE_COMPILE_OPTIONS "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,${gpipe_older}>:-std=c++20>")
endif()

if(NOT TARGET gpipe::hana)
  find_package(Boost 1.74 CONFIG QUIET)
  if(TARGET Boost::headers)
    add_library(gpipe::hana INTERFACE IMPORTED)
    set_property(TARGET gpipe::hana PROPERTY INTERFACE_LINK_LIBRARIES Boost::headers)
  else()
    find_path(GPIPE_HANA_INCLUDE_DIR boost/hana/version.hpp)
    mark_as_advanced(GPIPE_HANA_INCLUDE_DIR)
    if(GPIPE_HANA_INCLUDE_DIR)
      add_library(gpipe::hana INTERFACE IMPORTED)
      set_property(TARGET gpipe::hana PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_HANA_INCLUDE_DIR}")
    else()
      string(APPEND gpipe_missing "\n  Boost.Hana, headers only: install libboost-dev (Debian, Ubuntu) or set Boost_DIR")
    endif()
  endif()
endif()

# The host path needs Thrust's headers and no CUDA: a distribution's own come first, a CUDA toolkit's serve as well.
if(NOT TARGET gpipe::thrust)
  find_path(GPIPE_THRUST_INCLUDE_DIR thrust/version.h)
  find_path(GPIPE_THRUST_INCLUDE_DIR thrust/version.h
            PATHS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include/cccl include)
  mark_as_advanced(GPIPE_THRUST_INCLUDE_DIR)
  if(GPIPE_THRUST_INCLUDE_DIR)
    add_library(gpipe::thrust INTERFACE IMPORTED)
    set_property(TARGET gpipe::thrust PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_THRUST_INCLUDE_DIR}")
  else()
    string(APPEND gpipe_missing
           "\n  Thrust, headers only: install libthrust-dev (Debian, Ubuntu) or set GPIPE_THRUST_INCLUDE_DIR")
  endif()
endif()

if(NOT TARGET gpipe::libxsmm)
  add_library(gpipe::libxsmm INTERFACE IMPORTED)
  set(gpipe_gemm "its own kernels")
  if(NOT GPIPE_LIBXSMM STREQUAL "OFF")
    find_path(GPIPE_LIBXSMM_INCLUDE_DIR libxsmm.h PATH_SUFFIXES libxsmm)
    find_library(GPIPE_LIBXSMM_LIBRARY xsmm)
    mark_as_advanced(GPIPE_LIBXSMM_INCLUDE_DIR GPIPE_LIBXSMM_LIBRARY)
    set(gpipe_xsmm "${GPIPE_LIBXSMM_LIBRARY}")
    set(gpipe_xsmm_version "")
    if(GPIPE_LIBXSMM_INCLUDE_DIR AND EXISTS "${GPIPE_LIBXSMM_INCLUDE_DIR}/libxsmm_version.h")
      file(STRINGS "${GPIPE_LIBXSMM_INCLUDE_DIR}/libxsmm_version.h" gpipe_xsmm_version
           REGEX "define LIBXSMM_CONFIG_VERSION_MAJOR 1$")
    endif()
    if(gpipe_xsmm_version)  # before version 2, BLAS or a library without it is linked, too
      find_library(GPIPE_LIBXSMM_NOBLAS_LIBRARY xsmmnoblas)
      mark_as_advanced(GPIPE_LIBXSMM_NOBLAS_LIBRARY)
      list(APPEND gpipe_xsmm "${GPIPE_LIBXSMM_NOBLAS_LIBRARY}")
    endif()
    if(GPIPE_LIBXSMM_INCLUDE_DIR AND GPIPE_LIBXSMM_LIBRARY AND NOT gpipe_xsmm MATCHES "NOTFOUND")
      set_target_properties(gpipe::libxsmm PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_LIBXSMM_INCLUDE_DIR}"
        INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_LIBXSMM=1
        INTERFACE_LINK_LIBRARIES "${gpipe_xsmm};Threads::Threads;${CMAKE_DL_LIBS};m")
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
endif()

# For who trains on GPUs: links gpipe::cuda too, and between processes gpipe::nccl, and has nvcc compile what includes
# gpipe/cuda/cuda.hpp.
if(NOT gpipe_cuda STREQUAL "OFF" AND NOT TARGET gpipe::cuda)
  find_package(CUDAToolkit 12 QUIET)
  if(TARGET CUDA::cudart AND TARGET CUDA::cublasLt AND TARGET CUDA::nvtx3)
    add_library(gpipe::cuda INTERFACE IMPORTED)
    set_property(TARGET gpipe::cuda PROPERTY
                 INTERFACE_LINK_LIBRARIES "gpipe::dialect;CUDA::cudart;CUDA::cublasLt;CUDA::nvtx3")
  elseif(gpipe_cuda STREQUAL "ON")
    string(APPEND gpipe_missing "\n  the CUDA toolkit, 12 or newer, with cuBLASLt, which ${gpipe_cuda_by}: see "
           "https://developer.nvidia.com/cuda-downloads, or set CUDAToolkit_ROOT")
  endif()
endif()

# NCCL's own config comes first; else it lies beside the toolkit, or under the name of its run-time package.
if(NOT gpipe_nccl STREQUAL "OFF" AND TARGET gpipe::cuda AND NOT TARGET gpipe::nccl)
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
    set_target_properties(gpipe::nccl PROPERTIES INTERFACE_LINK_LIBRARIES "gpipe::cuda;NCCL::nccl"
                                                 INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_NCCL=1)
  elseif(gpipe_nccl STREQUAL "ON")
    string(APPEND gpipe_missing "\n  NCCL, which ${gpipe_nccl_by}: install libnccl-dev (from NVIDIA's repository for "
           "Debian, Ubuntu), or set CMAKE_PREFIX_PATH")
  endif()
endif()

# For who trains in several processes: links gpipe::mpi too, and includes gpipe/mpi.hpp.
if(NOT gpipe_mpi STREQUAL "OFF" AND NOT TARGET gpipe::mpi)
  set(MPI_CXX_SKIP_MPICXX ON)  # its C++ bindings are not used
  find_package(MPI QUIET COMPONENTS CXX)
  if(TARGET MPI::MPI_CXX)
    add_library(gpipe::mpi INTERFACE IMPORTED)
    set_target_properties(gpipe::mpi PROPERTIES INTERFACE_LINK_LIBRARIES "MPI::MPI_CXX;${CMAKE_DL_LIBS}"
                                                INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_MPI=1)
  elseif(gpipe_mpi STREQUAL "ON")
    string(APPEND gpipe_missing "\n  MPI, which ${gpipe_mpi_by}: install libopenmpi-dev and openmpi-bin (Debian, "
           "Ubuntu), or set MPI_HOME")
  endif()
endif()

# For who binds workers to cores: links gpipe::hwloc too, and includes gpipe/hwloc.hpp.
if(NOT gpipe_hwloc STREQUAL "OFF" AND NOT TARGET gpipe::hwloc)
  find_path(GPIPE_HWLOC_INCLUDE_DIR hwloc.h)
  find_library(GPIPE_HWLOC_LIBRARY hwloc)
  mark_as_advanced(GPIPE_HWLOC_INCLUDE_DIR GPIPE_HWLOC_LIBRARY)
  if(GPIPE_HWLOC_INCLUDE_DIR AND GPIPE_HWLOC_LIBRARY)
    add_library(gpipe::hwloc INTERFACE IMPORTED)
    set_target_properties(gpipe::hwloc PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_HWLOC_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES "${GPIPE_HWLOC_LIBRARY}"
      INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_HWLOC=1)
  elseif(gpipe_hwloc STREQUAL "ON")
    string(APPEND gpipe_missing "\n  hwloc, which ${gpipe_hwloc_by}: install libhwloc-dev (Debian, Ubuntu), or set "
           "CMAKE_PREFIX_PATH")
  endif()
endif()

# For who reads PNG or JPEG files: links gpipe::png, gpipe::jpeg, too, and includes gpipe/png.hpp, gpipe/jpeg.hpp.
foreach(gpipe_part IN ITEMS png jpeg)
  string(TOUPPER ${gpipe_part} gpipe_option)
  if(NOT gpipe_${gpipe_part} STREQUAL "OFF" AND NOT TARGET gpipe::${gpipe_part})
    find_package(${gpipe_option} QUIET)
    if(TARGET ${gpipe_option}::${gpipe_option})
      add_library(gpipe::${gpipe_part} INTERFACE IMPORTED)
      set_target_properties(gpipe::${gpipe_part} PROPERTIES
        INTERFACE_LINK_LIBRARIES ${gpipe_option}::${gpipe_option}
        INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_${gpipe_option}=1)
    elseif(gpipe_${gpipe_part} STREQUAL "ON")
      string(APPEND gpipe_missing "\n  lib${gpipe_part}, which ${gpipe_${gpipe_part}_by}: install lib${gpipe_part}-dev "
             "(Debian, Ubuntu), or set ${gpipe_option}_ROOT")
    endif()
  endif()
endforeach()

# For who cuts texts into pieces: links gpipe::sentencepiece too, and includes gpipe/sentencepiece.hpp.
if(NOT gpipe_sentencepiece STREQUAL "OFF" AND NOT TARGET gpipe::sentencepiece)
  find_path(GPIPE_SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h)
  find_library(GPIPE_SENTENCEPIECE_LIBRARY sentencepiece)
  find_library(GPIPE_SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
  mark_as_advanced(GPIPE_SENTENCEPIECE_INCLUDE_DIR GPIPE_SENTENCEPIECE_LIBRARY GPIPE_SENTENCEPIECE_TRAIN_LIBRARY)
  if(GPIPE_SENTENCEPIECE_INCLUDE_DIR AND GPIPE_SENTENCEPIECE_LIBRARY AND GPIPE_SENTENCEPIECE_TRAIN_LIBRARY)
    add_library(gpipe::sentencepiece INTERFACE IMPORTED)
    set_target_properties(gpipe::sentencepiece PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${GPIPE_SENTENCEPIECE_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES "${GPIPE_SENTENCEPIECE_TRAIN_LIBRARY};${GPIPE_SENTENCEPIECE_LIBRARY}"
      INTERFACE_COMPILE_DEFINITIONS GPIPE_WITH_SENTENCEPIECE=1)
  elseif(gpipe_sentencepiece STREQUAL "ON")
    string(APPEND gpipe_missing "\n  SentencePiece, which ${gpipe_sentencepiece_by}: install libsentencepiece-dev (Debian, "
           "Ubuntu), or set CMAKE_PREFIX_PATH")
  endif()
endif()

set(gpipe_host_FOUND TRUE)
foreach(gpipe_part IN ITEMS cuda nccl mpi hwloc png jpeg sentencepiece)
  set(gpipe_${gpipe_part}_FOUND FALSE)
  if(TARGET gpipe::${gpipe_part})
    set(gpipe_${gpipe_part}_FOUND TRUE)
  endif()
endforeach()
if(gpipe_missing)
  set(gpipe_FOUND FALSE)
  set(gpipe_NOT_FOUND_MESSAGE "gpipe lacks:${gpipe_missing}")
elseif(CMAKE_FIND_PACKAGE_NAME STREQUAL "gpipe")  # installed: the tree makes the target itself
  include("${CMAKE_CURRENT_LIST_DIR}/gpipe-targets.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/gpipe-compiled-targets.cmake" OPTIONAL)
  set(gpipe_compiled_FOUND FALSE)
  if(TARGET gpipe::compiled)
    set(gpipe_compiled_FOUND TRUE)
  endif()
endif()
foreach(gpipe_local IN ITEMS missing option unnamed part older gemm xsmm xsmm_version cuda nccl mpi hwloc png jpeg
                            sentencepiece cuda_by nccl_by mpi_by hwloc_by png_by jpeg_by sentencepiece_by)
  unset(gpipe_${gpipe_local})
endforeach()
unset(gpipe_local)
