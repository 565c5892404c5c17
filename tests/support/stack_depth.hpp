#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>

#include <pthread.h>

namespace stack_depth {

/// The bytes of stack that a call on a new thread touches. The thread's stack is filled with a pattern before.
inline std::size_t of(std::function<void()> call) {
  constexpr std::size_t size = 1 << 20, page = 4096;
  constexpr unsigned char pattern = 0xa5;
  const std::unique_ptr<unsigned char[]> memory(new unsigned char[size + page]);
  unsigned char* begin = memory.get() + (page - reinterpret_cast<std::size_t>(memory.get()) % page);
  std::memset(begin, pattern, size);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, begin, size);
  pthread_t thread;
  const auto start = [](void* of_call) -> void* {
    (*static_cast<std::function<void()>*>(of_call))();
    return nullptr;
  };
  const bool started = pthread_create(&thread, &attributes, start, &call) == 0;
  if (started) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  std::size_t untouched = 0;
  while (untouched < size && begin[untouched] == pattern) ++untouched;
  return started ? size - untouched : 0;
}

}  // namespace stack_depth
