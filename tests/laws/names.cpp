// compiled: alone
// sanitizers: none

// A program that says `using namespace gpipe` keeps its own names. Here it has variables, functions and types of many
// common names, and uses each of them unqualified, behind every header that a user includes. An internal name belongs
// in gpipe::detail. A name that users write, such as `linear` or `batch`, cannot stand here.

// A lambda of a template is compiled where it is used, and so behind the names of this program.
#pragma GCC diagnostic ignored "-Wshadow"

#include <doctest/doctest.h>

#include <unistd.h>  // it declares `link` and `read`

#include <gpipe.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/model/transformer.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/tools/report/breakdown.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>

using namespace gpipe;

#define VARIABLES(each)                                                                                                \
  each(action) each(address) each(age) each(angle) each(answer) each(average) each(base) each(block) each(bound)       \
      each(bytes) each(capacity) each(chunk) each(code) each(column) each(cost) each(counter) each(current) each(data) \
          each(depth) each(edge) each(element) each(event) each(extent) each(first) each(flag) each(group) each(hash)  \
              each(height) each(id) each(item) each(key) each(label) each(last) each(length) each(level) each(limit)   \
                  each(line) each(location) each(mask) each(matrix) each(maximum) each(mean) each(memory)              \
                      each(message) each(minimum) each(mode) each(name) each(node) each(offset) each(order)            \
                          each(output) each(part) each(parts) each(path) each(phase) each(point) each(position)        \
                              each(power) each(previous) each(queue) each(range) each(rank) each(rate) each(reader)    \
                                  each(result) each(row) each(rows) each(sample) each(score) each(seed) each(shape)    \
                                      each(size) each(layer) each(source) each(speed) each(stage) each(start)          \
                                          each(state) each(status) each(step) each(sum) each(table) each(target)       \
                                              each(task) each(text) each(thread) each(tick) each(tie) each(token)      \
                                                  each(total) each(type) each(unit) each(user) each(value)             \
                                                      each(weight) each(width) each(word) each(writer)

#define FUNCTIONS(each)                                                                                               \
  each(broadcast) each(call) each(check) each(compare) each(compute) each(distance) each(find) each(load) each(lower) \
      each(open_all) each(parse) each(pass) each(print) each(process) each(run) each(save) each(send_all) each(solve) \
          each(sort_all) each(traffic) each(transfer) each(update) each(visit) each(write_all)

#define TYPES(each)                                                                                                    \
  each(agent) each(barrier) each(bucket) each(channel) each(circle) each(client) each(config) each(document)           \
      each(fault) each(graph) each(image) each(job) each(list) each(logger) each(lifetimes) each(option) each(pair_of) \
          each(person) each(replica) each(server) each(session) each(settings) each(tree) each(worker)

#define DECLARE_VARIABLE(name) int name = 1;
#define DECLARE_FUNCTION(name) \
  int name(int x) { return x + 1; }
#define DECLARE_TYPE(name) \
  struct name {            \
    int number = 1;        \
  };
VARIABLES(DECLARE_VARIABLE)
FUNCTIONS(DECLARE_FUNCTION)
TYPES(DECLARE_TYPE)

TEST_CASE("a program that uses the namespace keeps its own names") {
  int sums[3]{}, count = 0;
#define USE_VARIABLE(name) sums[0] += name, ++count;
#define USE_FUNCTION(name) sums[1] += name(0), ++count;
#define USE_TYPE(name) sums[2] += name{}.number, ++count;
  VARIABLES(USE_VARIABLE)
  FUNCTIONS(USE_FUNCTION)
  TYPES(USE_TYPE)
  CHECK(count >= 100);
  CHECK(sums[0] + sums[1] + sums[2] == count);
}

TEST_CASE("a function of the system keeps its name") {
  int (*const of_system)(const char*, const char*) = link;  // not called
  CHECK((of_system != nullptr));
  CHECK(read(-1, nullptr, 0) == -1);
}
