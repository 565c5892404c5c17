#include <gpipe/tools/devices/device_file.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/temporary_folder.hpp"

using namespace gpipe;

namespace {

const std::string device_lines =
    "quantity,value\nfloat32,4000000000\nfloat64,2000000000\nhalf,0\nconvolution,3000000000\nother,500000000\n"
    "memory_bytes_per_second,12000000000\nparameter_bytes_per_second,2000000000\nlink_bytes_per_second,1000000000\n"
    "link_latency_ns,200\nlaunch_ns,800\nmemory_bytes,8589934592\n";

}  // namespace

TEST_CASE("a device is read from a file, and written as it was") {
  const temporary_folder folder;
  const std::string path = folder.beside("machine.csv"), again = folder.beside("again.csv");
  temporary_folder::write_file(path, device_lines);
  const device_spec on = read_device(path);
  CHECK(on.float32 == 4'000'000'000);
  CHECK(on.convolution == 3'000'000'000);
  CHECK(on.other == 500'000'000);
  CHECK(on.parameter_bytes_per_second == 2'000'000'000);
  CHECK(on.launch_ns == 800);
  CHECK(on.memory_bytes == 8_GiB);
  write_device(again, on);
  CHECK(temporary_folder::read_file(again) == device_lines);
}

TEST_CASE("a malformed file of a device is an error with its place") {
  const temporary_folder folder;
  const std::string path = folder.beside("machine.csv");
  const auto error_of = [&](const std::string& from, const std::string& to) {
    std::string text = device_lines;
    text.replace(text.find(from), from.size(), to);
    temporary_folder::write_file(path, text);
    try {
      read_device(path);
    } catch (const error& found) {
      return std::string(found.what()).substr(path.size());
    }
    return std::string("none");
  };
  const auto starts = [&](const std::string& from, const std::string& to, const std::string& expected) {
    CAPTURE(error_of(from, to));
    CHECK(error_of(from, to).starts_with(expected));
  };
  starts("quantity,value\n", "", ": the header is missing; begin with quantity,value");
  starts("float64", "float63", ":3: \"float63\" is no quantity of a device; give a line of");
  starts("float64", "float32", ":3: float32 appears twice");
  starts("half,0", "half,-1", ":4: half is not a whole number from 0 to 9223372036854775");
  starts("float32,4000000000", "float32,0", ":2: float32 is not a whole number from 1 to");
  starts("launch_ns,800", "launch_ns,8e2", ":11: launch_ns is not a whole number");
  starts("launch_ns,800", "launch_ns", ":11: launch_ns is not a whole number");
  starts("other,500000000\n", "other,99999999999999999999\n", ":6: other is not a whole number");
  starts("half,0\n", "", ": half is missing");
  starts("half,0\n", "half,0\r\n", "none");
}
