// Does examples/images learn as well as the same network in torch?
//
//     accuracy FOLDER [seeds [epochs]]      a folder as examples/images_data makes it

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../measure.hpp"
#include "../peer.hpp"

namespace {

/// The accuracy that the example prints; NaN if it fails.
double trained(const std::string& arguments) {
  std::FILE* out = popen(("bash " BENCH_ROOT "/examples/run images " + arguments).c_str(), "r");
  if (out == nullptr) return NAN;
  char line[512];
  double found = NAN;
  while (std::fgets(line, sizeof line, out) != nullptr)
    static_cast<void>(std::sscanf(line, "test accuracy %lf", &found));
  pclose(out);
  return found;
}

double mean(const std::vector<double>& all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return sum / static_cast<double>(all.size());
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    std::fputs("accuracy: there is no folder of images; start it by bash bench/run accuracy\n", stderr);
    return 1;
  }
  const std::string folder = words[1], epochs = count > 3 ? words[3] : "15";
  const int seeds = count > 2 ? std::atoi(words[2]) : 3;
  bench::print_environment();
  std::vector<double> ours, torch;
  for (int seed = 1; seed <= seeds; ++seed) {
    const std::string s = std::to_string(seed);
    ours.push_back(trained("--data " + folder + " --quiet --seed " + s + " --epochs " + epochs));
    const auto found = bench::peer("accuracy/convnet.py", folder + " " + s + " " + epochs);
    if (const auto at = found.find("accuracy"); at != found.end()) torch.push_back(at->second);
    std::printf("seed %d: gpipe %.4f, torch %.4f\n", seed, ours.back(), torch.empty() ? NAN : torch.back());
  }
  bench::result("accuracy.images", mean(ours), "share");
  if (!torch.empty()) bench::result("accuracy.images.over_torch", mean(ours) - mean(torch), "share");
}
