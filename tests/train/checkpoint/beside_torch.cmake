# Runs SCRIPT prepare, PROGRAM and SCRIPT check: PyTorch beside this library, from the same files. Without PyTorch
# the test skips, and says so.
#
# cmake -D PROGRAM=<program> -D SCRIPT=<script> -D "PACKAGES=<of PyPI;...>" -D SCRATCH=<folder> -P beside_torch.cmake
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../../python.cmake)
function(require)
  run(status ${ARGN})
  message("${printed}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "it failed: ${ARGN}")
  endif()
endfunction()

python_with_torch(python)
if(NOT python)
  return()
endif()
foreach(package IN LISTS PACKAGES)
  run(status ${python} -c "import ${package}")
  if(NOT status EQUAL 0)
    run(status ${python} -m pip install --quiet ${package})
    if(NOT status EQUAL 0)
      message("SKIPPED: ${package} cannot be installed: ${printed}")
      return()
    endif()
  endif()
endforeach()

file(REMOVE_RECURSE ${SCRATCH})
require(${python} ${SCRIPT} prepare ${SCRATCH})
require(${PROGRAM} ${SCRATCH})
require(${python} ${SCRIPT} check ${SCRATCH})
