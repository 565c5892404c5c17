# Copies the tree as users get it: without .git and without build outputs.
#     cmake -D ROOT=<the tree> -D COPY=<folder> -P copy.cmake

file(REMOVE_RECURSE ${COPY})
file(GLOB all RELATIVE ${ROOT} ${ROOT}/*)
list(REMOVE_ITEM all build .git)
foreach(name IN LISTS all)
  file(COPY ${ROOT}/${name} DESTINATION ${COPY})
endforeach()
