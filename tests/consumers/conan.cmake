# Builds the Conan package and trains with it, then installs it for another project. Conan comes from PyPI into a
# virtual environment; this and Conan's home are in the scratch folder. Without PyPI, the test prints SKIPPED.
#     cmake -D SCRATCH=<folder> -D COPY=<gpipe> -D COMPILER=<c++> -D PYTHON=<python3> -D SYSTEM=<include folders>
#           -D GENERATOR=<CMake generator> -D README=<install.md> -P conan.cmake

set(detect conan profile detect)
set(create conan create conan -pr:a conan/profiles/system -nr)
set(install conan install . -pr:a <gpipe>/conan/profiles/system -nr)
file(READ ${README} readme)
foreach(command IN ITEMS detect create install)
  list(JOIN ${command} " " commands)
  string(FIND "${readme}" "`${commands}`" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "install.md does not have the commands of this test: ${commands}")
  endif()
endforeach()

set(work ${SCRATCH}/conan)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})
execute_process(COMMAND ${PYTHON} -m venv ${work}/venv RESULT_VARIABLE failed)
if(NOT failed)
  execute_process(COMMAND ${work}/venv/bin/pip install --quiet --disable-pip-version-check "conan>=2.2,<3"
                  TIMEOUT 120 RESULT_VARIABLE failed)
endif()
if(failed)
  message(STATUS "SKIPPED: Conan could not be installed from PyPI (${failed})")
  return()
endif()

list(JOIN SYSTEM ":" path)
set(ENV{CPLUS_INCLUDE_PATH} "${path}")
set(ENV{CONAN_HOME} ${work}/home)
set(ENV{CXX} ${COMPILER})
set(ENV{PATH} "${work}/venv/bin:$ENV{PATH}")
file(WRITE ${work}/home/global.conf "tools.cmake.cmaketoolchain:generator=${GENERATOR}\n")
execute_process(COMMAND ${detect} OUTPUT_QUIET ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${create} WORKING_DIRECTORY ${COPY} COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${work}/project/conanfile.txt "[requires]\ngpipe/[>=0]\n[generators]\nCMakeDeps\nCMakeToolchain\n")
list(TRANSFORM install REPLACE "<gpipe>" "${COPY}")
execute_process(COMMAND ${install} WORKING_DIRECTORY ${work}/project COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS ${work}/project/conan_toolchain.cmake)
  message(FATAL_ERROR "conan install has not written a toolchain")
endif()
