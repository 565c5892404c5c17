# Installs a copy of gpipe, moves the installed files, and unpacks the Debian package, for other projects to find.
#     cmake -D COPY=<gpipe> -D SCRATCH=<folder> -D VERSION=<x.y.z>
#           [-D DPKG_DEB=<dpkg-deb>] -P package.cmake

file(REMOVE_RECURSE ${SCRATCH}/first ${SCRATCH}/installed ${SCRATCH}/unpacked)
execute_process(COMMAND ${CMAKE_COMMAND} --workflow --preset package WORKING_DIRECTORY ${COPY} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --install build/package --prefix ${SCRATCH}/first WORKING_DIRECTORY ${COPY}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${SCRATCH}/first ${SCRATCH}/installed)

# The library of gpipe::compiled, in a place of its own.
execute_process(COMMAND ${CMAKE_COMMAND} -S . -B build/compiled -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER}
                        -DGPIPE_TESTS=OFF -DGPIPE_EXAMPLES=OFF -DGPIPE_BENCH=OFF -DGPIPE_COMPILED=ON
                WORKING_DIRECTORY ${COPY} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build build/compiled WORKING_DIRECTORY ${COPY} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --install build/compiled --prefix ${SCRATCH}/installed_compiled
                WORKING_DIRECTORY ${COPY} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE installed ${SCRATCH}/installed/*)
foreach(file IN LISTS installed)
  file(STRINGS ${file} paths REGEX "${SCRATCH}|${COPY}")
  if(paths)
    message(FATAL_ERROR "${file} contains a path of the build machine: ${paths}")
  endif()
endforeach()

file(STRINGS ${COPY}/CHANGELOG.md entries REGEX "^## ")
list(GET entries 0 newest)
if(NOT newest STREQUAL "## ${VERSION}")
  message(FATAL_ERROR "the newest entry of CHANGELOG.md is '${newest}', but version.hpp has ${VERSION}")
endif()

set(deb ${COPY}/build/package/libgpipe-dev.deb)
if(DPKG_DEB)
  execute_process(COMMAND ${DPKG_DEB} -x ${deb} ${SCRATCH}/unpacked COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${DPKG_DEB} -f ${deb} OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
  foreach(field IN ITEMS "Package: libgpipe-dev" "Version: ${VERSION}" "Architecture: all"
                         "Depends: libboost-dev [^\n]*, libthrust-dev" "Recommends: libxsmm-dev")
    if(NOT fields MATCHES "(^|\n)${field}")
      message(FATAL_ERROR "the package has no '${field}' in\n${fields}")
    endif()
  endforeach()
endif()
