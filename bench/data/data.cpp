// How long do steps wait for a source that is mapped, in a process that may hold a tenth of it?

#include <gpipe.hpp>

#include "../measure.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#if !defined(_WIN32)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace {

using namespace gpipe;

constexpr int width = 1024;
struct net : model<input<float, width>, linear<512>, gelu, repeat<2, residual<layer_norm, linear<512>, gelu>>,
                   linear<10>, softmax_cross_entropy> {};

/// A line of /proc/self/status, in bytes: "RssFile" is what the process holds of files.
double status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::strtod(line.c_str() + name.size() + 1, nullptr) * 1024;
  return 0;
}

/// Takes a file out of the system's cache, so that it is read from the disk again.
void forget(const std::string& path) {
#if !defined(_WIN32)
  const int file = ::open(path.c_str(), O_RDONLY);
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
#endif
}

struct files {
  std::string inputs, labels;
  ~files() { std::remove(inputs.c_str()), std::remove(labels.c_str()); }
};

void write(const files& to, int samples) {
  std::ofstream inputs(to.inputs, std::ios::binary), labels(to.labels, std::ios::binary);
  std::vector<float> row(width);
  for (int i = 0; i < samples; ++i) {
    const std::int32_t label = i % 10;
    for (std::size_t j = 0; j < row.size(); ++j)
      row[j] = uniform(draw({}, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j / 4)).word[j % 4]) +
               (static_cast<int>(j % 10) == label ? 1.0F : 0.0F);
    inputs.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(4 * row.size()));
    labels.write(reinterpret_cast<const char*>(&label), 4);
  }
  if (!inputs.flush() || !labels.flush()) throw error("the data cannot be written", "give a folder with 1 GB free");
}

}  // namespace

int main(int count, char** words) {
  bench::print_environment();
  const std::string folder = count > 1 ? words[1] : std::filesystem::temp_directory_path().string();
  const files on_disk{folder + "/gpipe_bench_inputs.f32", folder + "/gpipe_bench_labels.i32"};
  constexpr int samples = 160'000;  // 625 MiB
  write(on_disk, samples);
  const double size = samples * 4.0 * (width + 1);

  trainer<net, adam> training{plan_options{.stages = 1, .micro_batches = 4, .micro_batch_size = 32}, adam{}};
  mapped_data data(static_cast<std::size_t>(size / 10));
  data.with<float>("inputs", width, on_disk.inputs).with<std::int32_t>("labels", 1, on_disk.labels);
  const double before = status("RssFile");
  double held = 0;
  std::vector<double> shares;
  for (int round = 0; round < 3; ++round) {
    forget(on_disk.inputs), forget(on_disk.labels);
    fit(training, data, {.batch = 128, .seed = static_cast<std::uint64_t>(round)}, [&](const fit_progress& now) {
      held = (std::max)(held, status("RssFile") - before);
      if (now.step != now.steps) return;
      shares.push_back(now.waiting);
      std::printf("epoch %d: loss %.4f, %.0f samples/s, waits %.4f of the time\n", round + 1, now.loss,
                  now.samples_per_second, now.waiting);
    });
  }
  std::printf("\nset %s, held at most %s of it\n", gpipe::detail::sized(static_cast<std::uint64_t>(size)).c_str(),
              gpipe::detail::sized(static_cast<std::uint64_t>(held)).c_str());
  bench::result("data.held", held / size, "ratio");
  bench::result("data.waiting", bench::median(shares), "ratio");
}
