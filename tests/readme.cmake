# The program in README.md is examples/readme.cpp, letter by letter.
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/examples/readme.cpp program)
string(FIND "${readme}" "```cpp\n${program}```\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the program in README.md differs from examples/readme.cpp: copy the file into the document")
endif()
