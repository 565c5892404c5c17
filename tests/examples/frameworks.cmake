# Reads the output of plan export with PyTorch, Megatron-Core and DeepSpeed. Without PyTorch the test skips. The others are
# small beside it. A framework that is not there is left out, and the test says that it skips.
#
# cmake -D PROGRAM=<plan> -D SCRIPT=<frameworks.py> -D SCRATCH=<folder> -P frameworks.cmake
cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../python.cmake)
set(time_limit 300)

python_with_torch(python)
if(NOT python)
  return()
endif()

file(REMOVE_RECURSE ${SCRATCH})
foreach(framework IN ITEMS torch megatron deepspeed)
  set(module ${framework})
  set(package ${framework})
  if(framework STREQUAL "megatron")
    set(module megatron.core)
    set(package megatron-core)
  endif()
  run(status ${python} -c "import ${module}")
  if(NOT status EQUAL 0)
    set(ENV{DS_BUILD_OPS} 0)
    run(status ${python} -m pip install --quiet --no-build-isolation ${package})
    if(NOT status EQUAL 0)
      message("SKIPPED: ${package} cannot be installed: ${printed}")
      continue()
    endif()
  endif()
  run(status ${python} ${SCRIPT} ${PROGRAM} ${SCRATCH} ${framework})
  message("${printed}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${framework} does not read what plan export writes, or judges a table in another way")
  endif()
endforeach()
