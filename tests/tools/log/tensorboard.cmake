# The package tensorboard reads what a training has logged for it. It is installed from PyPI once, in a virtual
# environment outside the tree; where that is impossible, the test skips, and says so.
#
# cmake -D PROGRAM=<examples/digits> -D READER=<read_events.py> -D SCRATCH=<folder> -P tensorboard.cmake
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../../python.cmake)

cache_folder(cache)
set(home ${cache}/gpipe-tests)
set(python ${home}/bin/python)
run(status ${python} -c "import tensorboard")
if(NOT status EQUAL 0)
  find_program(system_python python3)
  if(system_python)
    run(status ${system_python} -m venv ${home})
    run(status ${python} -m pip install --quiet tensorboard "setuptools<81")
  endif()
endif()
run(status ${python} -c "import tensorboard")
if(NOT status EQUAL 0)
  message("SKIPPED: tensorboard is not in ${home}, and cannot be installed: ${printed}")
  return()
endif()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
run(status ${PROGRAM} --epochs 1 --quiet --log ${SCRATCH}/run.csv --tensorboard ${SCRATCH}/run)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed: ${printed}")
endif()
run(status ${python} ${READER} ${SCRATCH}/run ${SCRATCH}/run.csv)
message("${printed}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "tensorboard reads something else than was logged")
endif()
