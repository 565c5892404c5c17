#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "emulator.hpp"

// Kernels as nvcc registers them: PTX, which translate.py makes into C++ and a compiler into a library. Libraries are
// kept in the folder EMULATED_CACHE, under a hash of their text: a kernel is compiled again only if it, or
// device_code.hpp, has changed. EMULATED_CXX is the compiler, g++ by default.

namespace emulated {

struct module {
  std::string ptx, folder;  ///< the folder has a file for each kernel
};

namespace {

std::map<const void*, kernel> kernels;  // [host function]

std::string from_environment(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}
std::string hash(const std::string& text) {
  u64 value = 1469598103934665603u;
  for (const char c : text) value = (value ^ static_cast<u8>(c)) * 1099511628211u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}
std::string contents(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}
bool exists(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }
bool succeeds(const std::string& command) { return std::system(command.c_str()) == 0; }

const std::string& cache() {
  static const std::string folder = from_environment("EMULATED_CACHE", "/tmp/emulated_gpu");
  return folder;
}
/// The command that compiles, in the folder with device_code.hpp and its precompiled form.
const std::string& compiler() {
  static const std::string command = [] {
    const std::string flags = from_environment("EMULATED_CXX", "g++") +
                              " -std=c++20 -O1 -mfma -ffp-contract=off -fno-strict-aliasing -fPIC -w -fno-exceptions" +
                              (counting() ? " -DEMULATED_COUNTS" : "");
    const std::string from = GPIPE_EMULATOR_FOLDER "/", own = std::to_string(::getpid());
    const std::string headers = contents(from + "device_code.hpp") + contents(from + "arithmetic.hpp");
    const std::string folder = cache() + "/" + hash(headers + flags);
    if (!exists(folder + "/device_code.hpp.gch"))
      succeeds("mkdir -p '" + folder + "' && cp '" + from + "device_code.hpp' '" + from + "arithmetic.hpp' '" + folder +
               "' && cd '" + folder + "' && " + flags + " -x c++-header device_code.hpp -o " + own + " && mv " + own +
               " device_code.hpp.gch");
    return "cd '" + folder + "' && " + flags + " -shared -I.";
  }();
  return command;
}

bool translate(module& m) {
  const std::string translator = GPIPE_EMULATOR_FOLDER "/translate.py";
  m.folder = cache() + "/" +
             hash(m.ptx + contents(translator) + contents(GPIPE_EMULATOR_FOLDER "/ptx.py") +
                  contents(GPIPE_EMULATOR_FOLDER "/counts.py"));
  if (exists(m.folder + "/translated")) return true;
  const std::string part = m.folder + "." + std::to_string(::getpid());
  if (!succeeds("mkdir -p '" + part + "'")) return false;
  std::ofstream(part + "/module.ptx") << m.ptx;
  return succeeds("python3 '" + translator + "' '" + part + "/module.ptx' '" + part + "' && touch '" + part +
                  "/translated' && { mv -T '" + part + "' '" + m.folder + "' 2>/dev/null || rm -r '" + part + "'; }");
}

/// Translates and compiles a kernel, unless the cache has it.
bool load(kernel& k) {
  if (k.run != nullptr) return true;
  if (k.of->folder.empty() && !translate(*k.of)) return false;
  const std::string source = k.of->folder + "/" + hash(k.name) + ".cpp", text = contents(source);
  const std::string library = cache() + "/" + hash(text + compiler()) + ".so",
                    part = library + std::to_string(::getpid());
  if (!exists(library) &&
      !succeeds(compiler() + " '" + source + "' -o '" + part + "' && mv '" + part + "' '" + library + "'"))
    return false;
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return std::fprintf(stderr, "emulated GPU: %s\n", dlerror()), false;
  const auto list = [&](const char* what) { return static_cast<int*>(dlsym(loaded, what)); };
  k.waits = *list("emulated_waits"), k.shared = *list("emulated_shared"), k.local = *list("emulated_local");
  k.max_threads = *list("emulated_max_threads"), k.parameter_bytes = *list("emulated_parameter_bytes");
  k.offsets = list("emulated_offsets"), k.sizes = list("emulated_sizes");
  k.shared_at = list("emulated_shared_at"), k.shared_size = list("emulated_shared_size");
  for (auto* v = static_cast<const variable*>(dlsym(loaded, "emulated_variables")); v->address != nullptr; ++v) {
    *v->address = allocate(v->size, gpu_in_use);  // one for each kernel that uses it
    std::memcpy(bytes_of(*v->address), v->bytes, v->size);
    std::memset(state_of(*v->address), allocated | written, v->size);
  }
  k.counted = static_cast<const counted_block*>(dlsym(loaded, "emulated_blocks"));
  k.accesses = static_cast<const counted_access*>(dlsym(loaded, "emulated_accesses"));
  k.module_path = k.of->folder + "/module.ptx";
  k.run = reinterpret_cast<void (*)(thread&)>(dlsym(loaded, "emulated_kernel"));
  return true;
}

/// Whether a floating-point number is part of a mangled name: nvcc may write another one where it registers the kernel.
bool holds_floating_point(const std::string& name) {
  for (std::size_t i = 0; i + 10 < name.size(); ++i)
    if (name[i] == 'L' && (name[i + 1] == 'd' || name[i + 1] == 'f') &&
        name.find_first_not_of("0123456789abcdef", i + 2) >= i + 10)
      return true;
  return false;
}

cudaError_t launch(const void* function, dim3 grid, dim3 size, void** given, std::size_t dynamic, cudaStream_t on) {
  const std::lock_guard held(one_at_a_time);
  const auto it = kernels.find(function);
  if (it == kernels.end()) {
    Dl_info info{};
    dladdr(function, &info);
    report("unregistered kernel", info.dli_sname != nullptr ? info.dli_sname : "a launch", 0, "no module has it");
    return returned(cudaErrorInvalidDeviceFunction);
  }
  kernel& k = it->second;
  if (!load(k)) {
    report("translation", k.name, 0, "this kernel cannot be translated or compiled");
    return returned(cudaErrorInvalidPtx);
  }
  const u64 threads = u64{size.x} * size.y * size.z;
  const auto refuse = [&](cudaError_t with, const std::string& what) {
    report("launch limits", k.name, 0, what);
    return returned(with);
  };
  const auto shared = static_cast<std::size_t>(k.shared) + dynamic;
  if (threads == 0 || threads > 1024 || size.z > 64)
    return refuse(cudaErrorInvalidConfiguration, std::to_string(threads) + " threads in a block");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return refuse(cudaErrorInvalidConfiguration,
                  "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y));
  if (threads > static_cast<u64>(k.max_threads))
    return refuse(cudaErrorInvalidValue,
                  std::to_string(threads) + " threads, and launch bounds of " + std::to_string(k.max_threads));
  if (shared > 49152 && dynamic > k.most_dynamic)
    return refuse(cudaErrorInvalidValue, std::to_string(shared) + " bytes of shared memory");
  std::vector<u64> parameters(static_cast<std::size_t>(k.parameter_bytes) / 8 + 2);
  for (int i = 0; k.offsets[i] >= 0; ++i)
    std::memcpy(reinterpret_cast<u8*>(parameters.data()) + k.offsets[i], given[i],
                static_cast<std::size_t>(k.sizes[i]));
  return enqueue(on, [&k, grid, size, parameters, dynamic, gpu = gpu_in_use] {
    run_kernel(k, grid, size, parameters, dynamic, gpu);
    return true;
  });
}

}  // namespace
}  // namespace emulated

using namespace emulated;

extern "C" {

// Registration, which nvcc's stubs call before main. The header of a fat binary and of each of its parts is nvcc's own
// layout: a part's kind is 1 for PTX.
struct fat_binary {
  int magic, version;
  const u8* data;
  void* more;
};
void** __cudaRegisterFatBinary(void* given) {
  const std::lock_guard held(one_at_a_time);
  auto* const m = new module;
  const auto read = [](const u8* at, auto into) { return std::memcpy(&into, at, sizeof into), into; };
  const u8* const at = static_cast<fat_binary*>(given)->data;
  for (const u8 *p = at + read(at + 6, u16{}), *end = p + read(at + 8, u64{}); p < end;) {
    const auto head = read(p + 4, u32{}), packed = read(p + 16, u32{}), arch = read(p + 28, u32{});
    const auto bytes = read(p + 8, u64{});
    const char* const text = reinterpret_cast<const char*>(p + head);
    if (read(p, u16{}) == 1 && packed != 0)
      std::fprintf(stderr, "emulated GPU: the PTX is compressed: compile with nvcc --no-compress\n");
    else if (read(p, u16{}) == 1 && static_cast<int>(arch) == architecture()) m->ptx.assign(text, strnlen(text, bytes));
    p += head + bytes;
  }
  if (m->ptx.empty()) std::fprintf(stderr, "emulated GPU: the program has no PTX of sm_%d\n", architecture());
  return reinterpret_cast<void**>(m);
}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** m, const char* host, char*, const char* name, int, void*, void*, void*, void*,
                            int*) {
  const std::lock_guard held(one_at_a_time);
  if (holds_floating_point(name)) report("kernel's type", name, 0, "a floating-point number is part of it");
  kernel& k = kernels[host];
  k.of = reinterpret_cast<module*>(m), k.name = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

// Launches: nvcc's stubs push and pop what stands between <<< and >>>.

struct call_configuration {
  dim3 grid, size;
  std::size_t dynamic;
  cudaStream_t on;
};
static thread_local std::vector<call_configuration> configurations;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 size, std::size_t dynamic, cudaStream_t on) {
  configurations.push_back({grid, size, dynamic, on});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* size, std::size_t* dynamic, cudaStream_t* on) {
  const auto c = configurations.back();
  configurations.pop_back();
  *grid = c.grid, *size = c.size, *dynamic = c.dynamic, *on = c.on;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* found, const void* function) {
  *found = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 size, void** given, std::size_t dynamic,
                               cudaStream_t on) {
  return launch(reinterpret_cast<const void*>(k), grid, size, given, dynamic, on);
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 size, void** given, std::size_t dynamic, cudaStream_t on) {
  return launch(f, grid, size, given, dynamic, on);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* f, void** given) {
  return launch(f, how->gridDim, how->blockDim, given, how->dynamicSmemBytes, how->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* f) {
  std::memset(a, 0, sizeof *a);
  if (!kernels.contains(f)) return returned(cudaErrorInvalidDeviceFunction);
  a->maxThreadsPerBlock = 1024, a->numRegs = 32, a->ptxVersion = a->binaryVersion = architecture();
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* f, cudaFuncAttribute which, int value) {
  const std::lock_guard held(one_at_a_time);
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > shared_of_block()) return returned(cudaErrorInvalidValue);
  return kernels[f].most_dynamic = static_cast<std::size_t>(value), cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void*, int size, std::size_t,
                                                                   unsigned) {
  return *n = std::max(1, 2048 / size), cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int size, std::size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, size, dynamic, 0);
}

}  // extern "C"
