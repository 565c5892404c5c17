# For tests that run Python.

# run(<result> <command...>): the exit status, and what it wrote in `printed`. Ends after `time_limit` seconds, or 100.
function(run result)
  if(NOT time_limit)
    set(time_limit 100)
  endif()
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out TIMEOUT ${time_limit})
  set(${result} "${status}" PARENT_SCOPE)
  set(printed "${out}" PARENT_SCOPE)
endfunction()

# cache_folder(<variable>): where the user's programs keep what can be made again.
function(cache_folder variable)
  set(cache $ENV{XDG_CACHE_HOME})
  if(NOT cache)
    set(cache $ENV{HOME}/.cache)
  endif()
  set(${variable} ${cache} PARENT_SCOPE)
endfunction()

# python_with_torch(<variable>): an interpreter with PyTorch; empty if there is none, and then the test says that it
# skips. PyTorch comes from PyPI and has some 6 GB, so no test installs it: it is that of the virtual environment which
# the benches make, or the interpreter GPIPE_BENCH_PYTHON.
function(python_with_torch variable)
  set(python $ENV{GPIPE_BENCH_PYTHON})
  if(NOT python)
    cache_folder(cache)
    set(python ${cache}/gpipe-bench/bin/python)
  endif()
  run(status ${python} -c "import torch")
  if(NOT status EQUAL 0)
    message("SKIPPED: ${python} has no torch: set GPIPE_BENCH_PYTHON to one that has, or run a bench that installs it: bash bench/run torch")
    set(python "")
  endif()
  set(${variable} "${python}" PARENT_SCOPE)
endfunction()
