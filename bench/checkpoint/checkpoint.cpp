// What does a checkpoint of 100 million parameters cost over the bytes alone?

#include <gpipe.hpp>

#include "../measure.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace {

using namespace gpipe;

constexpr int width = 4096, samples = 4, trials = 9;
struct net : model<input<float, width>, repeat<6, linear<width>>, mean_squared_error> {};

constexpr std::size_t chunk = std::size_t{8} << 20;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// Writes the bytes to a new file, and waits until they are on the disk.
void write_plainly(const std::string& path, const std::vector<std::byte>& bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) fail(path.c_str());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto written = ::write(file, bytes.data() + at, std::min(chunk, bytes.size() - at));
    if (written <= 0) fail(path.c_str());
    at += static_cast<std::size_t>(written);
  }
  if (::fsync(file) != 0) fail(path.c_str());
  ::close(file);
}

void read_plainly(const std::string& path, std::vector<std::byte>& into) {
  const int file = ::open(path.c_str(), O_RDONLY);
  if (file < 0) fail(path.c_str());
  for (std::size_t at = 0; at < into.size();) {
    const auto found = ::read(file, into.data() + at, std::min(chunk, into.size() - at));
    if (found <= 0) fail(path.c_str());
    at += static_cast<std::size_t>(found);
  }
  ::close(file);
}

void copy_arrays(const std::vector<std::size_t>& sizes, const std::vector<std::byte>& from,
                 std::vector<std::byte>& into) {
  std::size_t at = 0;
  for (const std::size_t bytes : sizes) std::memcpy(into.data() + at, from.data() + at, bytes), at += bytes;
}

/// Takes a file out of the system's cache, so that it is read from the disk again.
void forget(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const auto& one : std::filesystem::recursive_directory_iterator(folder))
    if (one.is_regular_file()) files.push_back(one.path());
  return files;
}

/// Medians of a quotient whose parts are measured in turn.
struct quotient {
  std::vector<double> ours, plain, ratios;
  void add(double our_seconds, double plain_seconds) {
    ours.push_back(our_seconds);
    plain.push_back(plain_seconds);
    ratios.push_back(our_seconds / plain_seconds);
  }
  double print(const char* what, const char* over) const {
    std::printf("%-22s %6.0f ms, %-16s %6.0f ms, ratio %.2f\n", what, 1e3 * bench::median(ours), over,
                1e3 * bench::median(plain), bench::median(ratios));
    return bench::median(ratios);
  }
};

}  // namespace

int main(int count, char** words) {
  bench::print_environment();
  namespace fs = std::filesystem;
  const fs::path home = (count > 1 ? fs::path(words[1]) : fs::temp_directory_path()) / "gpipe_bench_checkpoint";
  fs::remove_all(home);
  fs::create_directories(home);
  const std::string folder = home / "run", plain_file = home / "plain";

  trainer<net, sgd> training{{.stages = 2, .micro_batches = 1, .micro_batch_size = samples}};
  const std::vector<float> inputs(samples * width, 0.01F), targets(samples * width);
  training.step(batch{samples}.with("inputs", inputs).with("targets", targets));
  training.save(folder);
  std::size_t bytes = 0, parameters = 0;
  std::vector<std::size_t> sizes;  // of the arrays: parameters, then moments
  for (const std::string& file : files_in(folder)) bytes += fs::file_size(file);
  for (int times = 0; times < 2; ++times)
    for (const auto& one : training.parameters()) sizes.push_back(one.size() * sizeof(float)), parameters += one.size();
  std::printf("%.1f million parameters and their moments, %.0f MB, in %s\n", static_cast<double>(parameters) / 2e6,
              static_cast<double>(bytes) / 1e6, home.c_str());
  std::vector<std::byte> all(bytes, std::byte{1}), copy(bytes);

  quotient save, stall, load;
  for (int i = 0; i <= trials; ++i) {
    fs::remove_all(folder);
    fs::remove(plain_file);
    const double plain_write = bench::timed([&] { write_plainly(plain_file, all); });
    const double saved = bench::timed([&] { training.save(folder); });

    for (const std::string& one : files_in(home)) forget(one);
    const double plain_read = bench::timed([&] { read_plainly(plain_file, copy); });
    const double loaded = bench::timed([&] { training.load(folder); });

    fs::remove_all(folder);
    const double plain_copy = bench::timed([&] { copy_arrays(sizes, all, copy); });
    const double stalled = bench::timed([&] { training.save(folder, {.wait = false}); });
    training.wait_for_save();
    if (i == 0) continue;  // the first one touches pages
    save.add(saved, plain_write);
    stall.add(stalled, plain_copy);
    load.add(loaded, plain_read);
  }
  fs::remove_all(home);

  const double save_over_write = save.print("save", "write and fsync"), stalls = stall.print("save beside", "memcpy"),
               load_over_read = load.print("load", "read");
  std::printf("\n");
  bench::result("checkpoint.save_over_write", save_over_write, "ratio");
  bench::result("checkpoint.stall", stalls, "ratio");
  bench::result("checkpoint.load_over_read", load_over_read, "ratio");
}
