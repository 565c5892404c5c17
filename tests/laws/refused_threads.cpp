// sanitizers: none
// compiled: alone
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>

#include <gpipe/tools/data/generated_data.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/small_training.hpp"
#include "support/temporary_folder.hpp"

// The system refuses a thread, as under a limit of processes: the first that a call starts, the second, and so on. The
// call throws an error that says so, or goes on without, and does its work once the limit is lifted.
//
// The test defines pthread_create around the real one; sanitizers do that themselves.

using namespace small;

namespace {

std::atomic<int> allowed{-1};  // threads that may still start; -1: any number
std::atomic<bool> refused{false};

// Calls `call` with ever more threads until none is refused. Returns how many calls were refused a thread.
int limited(const std::function<void()>& call) {
  int calls = 0;
  for (bool again = true; again; ++calls) {
    refused = false, allowed = calls;
    std::string said;
    try {
      call();
    } catch (const error& e) {
      said = e.what();
    }
    allowed = -1;
    again = refused;
    INFO("thread ", calls + 1, ": ", said);
    CHECK((said.empty() || said.find("thread") != std::string::npos));
    CHECK((again || said.empty()));
  }
  return calls - 1;
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* of) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (allowed >= 0 && allowed.fetch_sub(1) <= 0) {
    allowed = 0, refused = true;
    return EAGAIN;
  }
  return real(thread, how, run, of);
}

TEST_CASE("a call that is refused a thread throws an error, and succeeds later with the same bits") {
  const temporary_folder folder;
  const generated_data made(5, {{"inputs", 4}, {"labels", 1, dtype::int32}}, [](const batch_request& request) {
    const auto rows = request.rows<float>("inputs");
    for (std::size_t i = 0; i < request.samples().size(); ++i) {
      const auto s = static_cast<std::size_t>(request.samples()[i]);
      for (std::size_t j = 0; j < 4; ++j) rows[4 * i + j] = x[4 * s + j];
      request.rows<std::int32_t>("labels")[i] = labels[s];
    }
  });
  training undisturbed(two, adam{});
  undisturbed.step(all);
  undisturbed.save(folder.beside("run"));

  CHECK(limited([] { training(two, adam{}).step(all); }) >= 1);
  training t(two, adam{});
  CHECK(limited([&] { t.load(folder.beside("run")), fit(t, made, {.batch = 5}); }) >= 1);
  limited([&] { t.evaluate(made), t.predict(made); });
  limited([&] { t.save(folder.beside("here")); });
  CHECK(limited([&] { t.save(folder.beside("beside"), {.wait = false}), t.wait_for_save(); }) >= 1);
  limited([&] { t.load(folder.beside("run")); });

  t.step(all), undisturbed.step(all);
  CHECK(t.parameter_hash() == undisturbed.parameter_hash());
}
