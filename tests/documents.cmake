# The documents say what is so:
#
#   - what they link to is there, headings too, and so is every file that they name;
#   - their C++ compiles: all blocks of a document, one after the other, are a namespace of one file. What a block needs
#     and a reader does not stands before it in a comment of the document that begins with "<!-- cpp";
#   - their commands run, or are named below with who runs them else;
#   - the program in README.md is examples/readme.cpp, letter by letter.
#
# cmake -D ROOT=... -D SCRATCH=... -D COMPILER=... -D INCLUDE=<folders> -D MPI=<whether there is one>
#       -D EXAMPLES=<folder of the built examples, or nothing> -P documents.cmake
cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE documents RELATIVE ${ROOT} ${ROOT}/include/*.md ${ROOT}/examples/*.md ${ROOT}/bench/*.md)
list(PREPEND documents README.md CHANGELOG.md)

# Commands that are not run here, as regular expressions, and why.
set(not_run
    "bash tests/run.*"                           # runs this test
    "bash bench/run .*"                          # takes minutes; that there is such a bench is looked at
    "bash examples/run"                          # with no epochs named it takes seconds: examples/digits runs it
    "bash examples/run digits --device cuda"     # needs a GPU
    "digits --[a-z]+ .*" "digits --[a-z]+"       # what bash examples/run runs, shortened
    "mpirun -np .*"                              # examples/digits/same_bits
    "cmake --preset release -D GPIPE_DIGITS_PROFILE=.*"  # examples/digits/same_bits compiles with a profile
    "cmake --workflow --preset .*"               # .ci/run builds presets
    "cmake --preset release -D GPIPE_CUDA=ON.*"  # takes minutes of nvcc
    "g\\+\\+ -std=c\\+\\+20 .*"
    "cmake --build .*" "cmake -B .*" "cmake -S .*" "cmake --install .*" "conan .*" "cpack.*")

function(complain)
  string(CONCAT text ${ARGN})
  message(SEND_ERROR "${text}")
endfunction()

# Text that a list of CMake's may hold.
function(flatten text into)
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "[" "{" text "${text}")
  string(REPLACE "]" "}" text "${text}")
  set(${into} "${text}" PARENT_SCOPE)
endfunction()

# Links and names -----------------------------------------------------------------------------------------------------

# What GitHub calls a heading.
function(anchors_of document into)
  file(READ ${document} text)
  flatten("${text}" text)
  string(REGEX MATCHALL "\n#+ [^\n]*" headings "\n${text}")
  set(anchors)
  foreach(heading IN LISTS headings)
    string(REGEX REPLACE "^\n#+ " "" heading "${heading}")
    string(TOLOWER "${heading}" heading)
    string(REGEX REPLACE "[^a-z0-9 _-]" "" heading "${heading}")
    string(REPLACE " " "-" heading "${heading}")
    list(APPEND anchors "${heading}")
  endforeach()
  set(${into} "${anchors}" PARENT_SCOPE)
endfunction()

function(check_links document text)
  cmake_path(GET document PARENT_PATH folder)
  flatten("${text}" text)
  string(REGEX MATCHALL "}\\([^) \n]+\\)" links "${text}")
  foreach(link IN LISTS links)
    string(REGEX REPLACE "^}\\((.*)\\)$" "\\1" link "${link}")
    if(link MATCHES "^[a-z]+:")
      continue()
    endif()
    string(REGEX REPLACE "#.*$" "" path "${link}")
    set(target ${ROOT}/${document})
    if(path)
      cmake_path(SET target NORMALIZE ${ROOT}/${folder}/${path})
    endif()
    if(NOT EXISTS ${target})
      complain("${document} links to ${link}, which is not there")
    elseif(link MATCHES "#(.*)$")
      set(anchor ${CMAKE_MATCH_1})
      if(IS_DIRECTORY ${target})
        string(APPEND target /README.md)
      endif()
      anchors_of(${target} anchors)
      if(NOT anchor IN_LIST anchors)
        complain("${document} links to ${link}, and there is no such heading")
      endif()
    endif()
  endforeach()
  # `tests/laws/gradient.cpp`, `gpipe/plan.hpp`, <gpipe.hpp>
  string(REGEX MATCHALL "[`<][A-Za-z0-9_./-]+\\.(hpp|cpp|md|csv|svg|cmake|py)[`>]" names "${text}")
  foreach(name IN LISTS names)
    string(REGEX REPLACE "[`<>]" "" name "${name}")
    set(found OFF)
    foreach(place IN ITEMS ${ROOT}/${folder} ${ROOT} ${ROOT}/include)
      if(EXISTS ${place}/${name})
        set(found ON)
      endif()
    endforeach()
    if(NOT found)
      complain("${document} names ${name}, which is not there")
    endif()
  endforeach()
endfunction()

# Commands ------------------------------------------------------------------------------------------------------------

# A command behind which stands "# refused" fails, and says why.
function(check_command document command)
  set(expected succeed)
  if(command MATCHES "# refused")
    set(expected "fail with a word")
  endif()
  string(REGEX REPLACE " +#.*$" "" command "${command}")
  string(STRIP "${command}" command)
  if(command MATCHES "^bash bench/run ([a-z]+)")
    if(NOT EXISTS ${ROOT}/bench/${CMAKE_MATCH_1}/README.md)
      complain("${document}: there is no bench for: ${command}")
    endif()
  endif()
  foreach(pattern IN LISTS not_run)
    if(command MATCHES "^(${pattern})$")
      return()
    endif()
  endforeach()
  if(command MATCHES "^bash examples/run ([a-z_]+)$")
    if(EXISTS ${ROOT}/examples/${CMAKE_MATCH_1}.cpp)
      return()  # the test examples/NAME
    endif()
  endif()
  if(NOT command MATCHES "^bash examples/run (.*)$")
    complain("${document}: nobody runs the command: ${command}")
    return()
  endif()
  set(words "${CMAKE_MATCH_1}")
  if(NOT EXAMPLES OR (words MATCHES "--transport mpi" AND NOT MPI))
    return()
  endif()
  separate_arguments(words UNIX_COMMAND "${words}")
  list(POP_FRONT words name)
  if(name MATCHES "^-")
    list(PREPEND words ${name})
    set(name digits)
  endif()
  list(TRANSFORM words REPLACE "^examples/" "${ROOT}/examples/")
  if(name STREQUAL "digits")
    list(PREPEND words --epochs 1)
  endif()
  execute_process(COMMAND ${EXAMPLES}/${name} ${words} WORKING_DIRECTORY ${SCRATCH} RESULT_VARIABLE result
                  OUTPUT_QUIET ERROR_VARIABLE told)
  set(found "${result}")
  if(result EQUAL 0)
    set(found succeed)
  elseif(result EQUAL 1 AND told)
    set(found "fail with a word")
  endif()
  if(NOT found STREQUAL expected)
    complain("${document}: ${command} should ${expected}, not ${found}: ${told}")
  endif()
endfunction()

function(check_commands document text)
  flatten("${text}" text)
  set(program "(bash|digits|mpirun|cmake|g\\+\\+|conan|cpack)")
  string(REGEX MATCHALL "`${program} [^`\n]+`" inline "${text}")
  string(REGEX MATCHALL "\n    ${program} [^\n]+" blocks "${text}")
  set(commands ${inline} ${blocks})
  list(TRANSFORM commands REPLACE "[`\n]" "")
  list(TRANSFORM commands STRIP)
  list(REMOVE_DUPLICATES commands)
  foreach(command IN LISTS commands)
    check_command(${document} "${command}")
  endforeach()
endfunction()

# Blocks of other languages than C++ are README.md's, and tests/consumers runs them.
function(check_fences document text)
  flatten("${text}" text)
  string(REGEX MATCHALL "\n```[a-z]+" fences "${text}")
  list(FILTER fences EXCLUDE REGEX "cpp")
  if(fences AND NOT document STREQUAL "README.md")
    complain("${document} has blocks that nobody runs:${fences}")
  endif()
endfunction()

# C++ -----------------------------------------------------------------------------------------------------------------

# Appends the C++ of a document to `program`: what is fenced, and what a comment hides.
function(append_blocks document text)
  string(APPEND program "namespace in_document_${number} {\n")
  set(line 1)
  while(ON)
    string(FIND "${text}" "\n```cpp\n" shown)
    string(FIND "${text}" "\n<!-- cpp\n" hidden)
    if(shown EQUAL -1 AND hidden EQUAL -1)
      break()
    elseif(hidden EQUAL -1 OR (shown GREATER -1 AND shown LESS hidden))
      set(begin ${shown})
      set(opening 8)
      set(closing "\n```\n")
    else()
      set(begin ${hidden})
      set(opening 10)
      set(closing "\n-->\n")
    endif()
    math(EXPR begin "${begin} + ${opening}")
    string(SUBSTRING "${text}" 0 ${begin} before)
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "${closing}" length)
    if(length EQUAL -1)
      complain("${document} does not end a block that it begins")
      break()
    endif()
    string(SUBSTRING "${text}" 0 ${length} block)
    string(SUBSTRING "${text}" ${length} -1 text)
    string(REGEX REPLACE "[^\n]" "" lines "${before}")
    string(LENGTH "${lines}" lines)
    math(EXPR line "${line} + ${lines}")
    # Headers are included outside of any namespace, before all; those of MPI where there is one.
    string(REGEX MATCHALL "#include <[^>\n]*>" headers "${block}")
    foreach(header IN LISTS headers)
      if(MPI OR NOT header MATCHES "mpi")
        string(APPEND includes "${header}\n")
      endif()
    endforeach()
    string(REGEX REPLACE "#include <[^>\n]*>" "" code "${block}")
    string(APPEND program "#line ${line} \"${document}\"\n${code}\n")
    string(REGEX REPLACE "[^\n]" "" lines "${block}")
    string(LENGTH "${lines}" lines)
    math(EXPR line "${line} + ${lines}")
  endwhile()
  string(APPEND program "}\n")
  set(program "${program}" PARENT_SCOPE)
  set(includes "${includes}" PARENT_SCOPE)
endfunction()

# -----------------------------------------------------------------------------------------------------------------------

file(MAKE_DIRECTORY ${SCRATCH})
set(program)
set(includes)
set(number 0)
foreach(document IN LISTS documents)
  file(READ ${ROOT}/${document} text)
  check_links(${document} "${text}")
  check_commands(${document} "${text}")
  check_fences(${document} "${text}")
  append_blocks(${document} "${text}")
  math(EXPR number "${number} + 1")
endforeach()

file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/examples/readme.cpp first_program)
string(FIND "${readme}" "```cpp\n${first_program}```\n" at)
if(at EQUAL -1)
  complain("the program in README.md differs from examples/readme.cpp: copy the file into the document")
endif()

file(WRITE ${SCRATCH}/documents.cpp "${includes}\n${program}")
list(TRANSFORM INCLUDE PREPEND -I)
if(MPI)
  list(APPEND INCLUDE -DGPIPE_WITH_MPI=1)
endif()
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -Wno-unused-variable
                        -Wno-unused-but-set-variable -Wno-return-type ${INCLUDE} ${SCRATCH}/documents.cpp
                RESULT_VARIABLE result ERROR_VARIABLE told)
if(NOT result EQUAL 0)
  string(SUBSTRING "${told}" 0 4000 told)
  complain("the C++ of the documents does not compile:\n${told}")
endif()
