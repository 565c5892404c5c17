# Writes the compiler's messages of each file of a batch to <folder>/<name>.txt. A message is an error with the lines
# before it that say where it comes from, and the notes after it:
#
#     promises.hpp: In instantiation of ...
#     compile_fail/cell.cpp:38:30:   required from here
#     promises.hpp:90:3: error: static assertion failed: ...
#     promises.hpp:90:9: note: ...
#
# It belongs to the last file of compile_fail that these lines name; one without a file belongs to none.

function flush(    name) {
  if (has_error) {
    name = last_file(before_notes)
    if (name == "") name = last_file(text)
    if (name != "") printf "%s", text > (folder "/" name ".txt")
  }
  text = before_notes = ""
  has_error = 0
}
function last_file(lines,    name) {
  name = ""
  while (match(lines, /compile_fail\/[a-z0-9_]+\.cpp/)) {
    name = substr(lines, RSTART + 13, RLENGTH - 17)
    lines = substr(lines, RSTART + RLENGTH)
  }
  return name
}

{
  is_error = $0 ~ /[0-9]: (fatal )?error: /
  is_context = $0 ~ /: (In|At) .*:$/ || $0 ~ /^In file included from / || $0 ~ /   required (from|by|for) /
  if (has_error && (is_error || is_context)) flush()
  text = text $0 "\n"
  if (!has_error) before_notes = before_notes $0 "\n"
  if (is_error) has_error = 1
}
END { flush() }
