// 10^7 mutated headers and indexes of safetensors files, or as many as the first argument says. See README.md.

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "../../tests/support/fuzz_checkpoints.hpp"
#include "../measure.hpp"

int main(int count, char** arguments) {
  const long wanted = count > 1 ? std::atol(arguments[1]) : 10'000'000;
  fuzz::tally found;
  long crashes = 0;
  const double seconds = bench::timed([&] {
    constexpr long part = 100'000;
    for (long done = 0; done < wanted; done += part) {
      try {
        const fuzz::tally now = fuzz::run((std::min)(part, wanted - done), static_cast<std::uint64_t>(1 + done));
        found.files += now.files, found.accepted += now.accepted, found.malformed += now.malformed;
        if (now.malformed > 0) std::printf("%s\n", now.first_malformed.c_str());
      } catch (const std::exception& wrong) {  // no error of the library: an allocation, or a length
        ++crashes;
        std::printf("%s\n", wrong.what());
      }
    }
  });
  std::printf("%ld files in %.0f s, of which %ld were accepted\n", found.files, seconds, found.accepted);
  bench::result("fuzz.crashes", static_cast<double>(crashes), "files");
  bench::result("fuzz.accepted_malformed", static_cast<double>(found.malformed), "files");
  return crashes == 0 && found.malformed == 0 ? 0 : 1;
}
