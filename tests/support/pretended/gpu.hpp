#pragma once

// Two pretended GPUs on this processor: the functions of CUDA and cuBLASLt that the library calls, in plain C++. A
// stream is a thread that works off a queue asynchronously; memory is the host's. It tests the calls, their order and
// their arguments, and that products are described correctly. It does not test a real GPU's numbers, speed or limits.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <gpipe/core/numbers/bf16.hpp>

namespace pretended {

inline constexpr int gpus = 2;
inline thread_local int in_use = 0;

/// The operations of a graph, in the order of their capture, which is one of the orders that its streams allow.
using script = std::vector<std::function<void()>>;

/// An event.
class moment {
 public:
  void pass() {
    const std::lock_guard here(lock_);
    passed_ = std::chrono::steady_clock::now();
    all_.notify_all();
  }
  void wait() {
    std::unique_lock here(lock_);
    all_.wait(here, [this] { return passed_.has_value(); });
  }
  bool passed() {
    const std::lock_guard here(lock_);
    return passed_.has_value();
  }
  /// Milliseconds until a later event; both are complete.
  float until(const moment& later) const {
    return std::chrono::duration<float, std::milli>(*later.passed_ - *passed_).count();
  }

 private:
  std::mutex lock_;
  std::condition_variable all_;
  std::optional<std::chrono::steady_clock::time_point> passed_;
};

}  // namespace pretended

struct CUstream_st {
  CUstream_st() : gpu(pretended::in_use), thread_([this] { work(); }) {
    const std::lock_guard here(of_all());
    all().insert(this);
  }
  ~CUstream_st() {
    {
      const std::lock_guard here(of_all());
      all().erase(this);
    }
    enqueue([this] { over_ = true; });
    thread_.join();
  }
  void enqueue(std::function<void()> what) {
    if (captures) return captures->push_back(std::move(what));
    const std::lock_guard here(lock_);
    queue_.push_back(std::move(what));
    more_.notify_one();
  }

  static std::set<CUstream_st*>& all() {
    static std::set<CUstream_st*> streams;
    return streams;
  }
  static std::mutex& of_all() {
    static std::mutex lock;
    return lock;
  }

  const int gpu;
  std::shared_ptr<pretended::script> captures;  ///< captures operations instead of running them

 private:
  void work() {
    while (!over_) {
      std::unique_lock here(lock_);
      more_.wait(here, [this] { return !queue_.empty(); });
      const auto next = std::move(queue_.front());
      queue_.pop_front();
      here.unlock();
      next();
    }
  }

  std::mutex lock_;
  std::condition_variable more_;
  std::deque<std::function<void()>> queue_;
  bool over_ = false;
  std::thread thread_;
};

struct CUevent_st {
  const int gpu = pretended::in_use;
  std::shared_ptr<pretended::moment> last;
  std::shared_ptr<pretended::script> within;  // the graph that it was recorded in
};
struct CUgraph_st {
  std::shared_ptr<pretended::script> script;
};
struct CUgraphExec_st {
  std::shared_ptr<pretended::script> script;
};

namespace pretended {

/// As in CUDA, a stream accepts work only while its GPU is the current one.
inline cudaError_t enqueue(cudaStream_t stream, std::function<void()> what) {
  if (stream->gpu != in_use) return cudaErrorInvalidResourceHandle;
  stream->enqueue(std::move(what));
  return cudaSuccess;
}

struct layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;
  double get(const void* at, std::uint64_t row, std::uint64_t column) const {
    const auto i = column * static_cast<std::uint64_t>(stride) + row;
    if (type == CUDA_R_64F) return static_cast<const double*>(at)[i];
    if (type == CUDA_R_16BF) return static_cast<double>(static_cast<const gpipe::bf16*>(at)[i]);
    return static_cast<double>(static_cast<const float*>(at)[i]);
  }
  void set(void* at, std::uint64_t row, std::uint64_t column, double value) const {
    const auto i = column * static_cast<std::uint64_t>(stride) + row;
    if (type == CUDA_R_64F) static_cast<double*>(at)[i] = value;
    else if (type == CUDA_R_16BF) static_cast<gpipe::bf16*>(at)[i] = static_cast<float>(value);
    else static_cast<float*>(at)[i] = static_cast<float>(value);
  }
};
struct product {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t then = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
};
static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(product) <= sizeof(cublasLtMatmulDescOpaque_t));

template <class As, class Opaque>
As& as(Opaque* given) {
  return *reinterpret_cast<As*>(given);
}

/// Returns true if the extents of D = op(A) op(B) fit one product.
inline bool fits(const product& p, const layout& a, const layout& b, const layout& d) {
  const bool at = p.a == CUBLAS_OP_T, bt = p.b == CUBLAS_OP_T;
  const auto enough = [](const layout& l) { return l.stride >= static_cast<std::int64_t>(l.rows); };
  return (at ? a.columns : a.rows) == d.rows && (bt ? b.rows : b.columns) == d.columns &&
         (at ? a.rows : a.columns) == (bt ? b.columns : b.rows) && enough(a) && enough(b) && enough(d);
}

inline void multiply(const product& p, double one, double add, const layout& la, const void* a, const layout& lb,
                     const void* b, const layout& ld, void* d) {
  const bool at = p.a == CUBLAS_OP_T, bt = p.b == CUBLAS_OP_T;
  const auto inner = at ? la.rows : la.columns;
  for (std::uint64_t j = 0; j < ld.columns; ++j)
    for (std::uint64_t i = 0; i < ld.rows; ++i) {
      double sum = 0;
      for (std::uint64_t k = 0; k < inner; ++k)
        sum += la.get(a, at ? k : i, at ? i : k) * lb.get(b, bt ? j : k, bt ? k : j);
      sum *= one;
      if (add != 0) sum += add * ld.get(d, i, j);
      if (p.then == CUBLASLT_EPILOGUE_BIAS) sum += layout{ld.type, ld.rows, 1, 0}.get(p.bias, i, 0);
      ld.set(d, i, j, sum);
    }
  if (p.then == CUBLASLT_EPILOGUE_BGRADB)
    for (std::uint64_t j = 0; j < ld.columns; ++j) {
      double sum = 0;
      for (std::uint64_t k = 0; k < inner; ++k) sum += lb.get(b, bt ? j : k, bt ? k : j);
      layout{ld.type, ld.columns, 1, 0}.set(p.bias, j, 0, sum);
    }
}

}  // namespace pretended

// CUDA ----------------------------------------------------------------------------------------------------------------

extern "C" {

inline const char* cudaGetErrorName(cudaError_t) { return "cudaErrorPretended"; }
inline const char* cudaGetErrorString(cudaError_t) { return "a pretended error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = pretended::gpus, cudaSuccess; }
inline cudaError_t cudaSetDevice(int gpu) { return pretended::in_use = gpu, cudaSuccess; }
inline cudaError_t cudaMemGetInfo(std::size_t* left, std::size_t* all) {
  return *left = *all = std::size_t{8} << 30, cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 1, cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaErrorPeerAccessAlreadyEnabled; }
inline cudaError_t cudaMalloc(void** at, std::size_t bytes) {
  *at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*at, 0xff, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* at) { return std::free(at), cudaSuccess; }
inline cudaError_t cudaHostAlloc(void** at, std::size_t bytes, unsigned) { return cudaMalloc(at, bytes); }
inline cudaError_t cudaFreeHost(void* at) { return cudaFree(at); }
inline cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  return std::memset(at, value, bytes), cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned) {
  return *made = new CUstream_st, cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) { return *made = new CUevent_st, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->gpu != stream->gpu) return cudaErrorInvalidResourceHandle;
  event->last = std::make_shared<pretended::moment>();
  event->within = stream->captures;
  if (event->within) return cudaSuccess;
  return pretended::enqueue(stream, [now = event->last] { now->pass(); });
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->within) {
    if (stream->captures && stream->captures != event->within) return cudaErrorStreamCaptureMerge;
    if (event->within.use_count() == 1) return cudaErrorCapturedEvent;
    stream->captures = event->within;
    return cudaSuccess;
  }
  if (stream->captures) return cudaErrorStreamCaptureIsolation;
  stream->enqueue([then = event->last] { then->wait(); });
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->within) return cudaErrorCapturedEvent;
  return event->last->wait(), cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  return !event->last || event->last->passed() ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int gpu) {
  *found = {};
  found->uuid.bytes[0] = static_cast<char>(gpu + 1);
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->captures = std::make_shared<pretended::script>();
  return cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  return *ms = from->last->until(*to->last), cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->captures) return cudaErrorStreamCaptureUnsupported;
  pretended::moment here;
  stream->enqueue([&here] { here.pass(); });
  return here.wait(), cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* written) {
  const auto all = stream->captures;
  const std::lock_guard here(CUstream_st::of_all());
  for (const auto other : CUstream_st::all())
    if (other->captures == all) other->captures.reset();
  return *written = new CUgraph_st{all}, cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t written, unsigned long long) {
  return *made = new CUgraphExec_st{written->script}, cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t written) { return delete written, cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) { return delete made, cudaSuccess; }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
  return pretended::enqueue(stream, [script = made->script] {
    for (const auto& line : *script) line();
  });
}
inline cudaError_t cudaMemcpyAsync(void* into, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  if (bytes > 0 && (into == nullptr || from == nullptr)) return cudaErrorInvalidValue;
  return pretended::enqueue(stream, [=] { std::memcpy(into, from, bytes); });
}
inline cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  return pretended::enqueue(stream, [=] { std::memset(at, value, bytes); });
}

// cuBLASLt ------------------------------------------------------------------------------------------------------------

inline const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_PRETENDED"; }
inline const char* cublasLtGetStatusString(cublasStatus_t) { return "a pretended status"; }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t*) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t made, std::size_t, cudaDataType type,
                                                        std::uint64_t rows, std::uint64_t columns,
                                                        std::int64_t stride) {
  pretended::as<pretended::layout>(made) = {type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t made, std::size_t,
                                                      cublasComputeType_t compute, cudaDataType scale) {
  pretended::as<pretended::product>(made) = {.compute = compute, .scale = scale};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t what,
                                                     const void* value, std::size_t bytes) {
  auto& p = pretended::as<pretended::product>(of);
  const auto set = [&](auto& into) {
    if (bytes != sizeof into) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&into, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  if (what == CUBLASLT_MATMUL_DESC_TRANSA) return set(p.a);
  if (what == CUBLASLT_MATMUL_DESC_TRANSB) return set(p.b);
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) return set(p.then);
  if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(p.bias);
  return CUBLAS_STATUS_INVALID_VALUE;
}
inline cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t, const void*,
                                                           std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
// Only narrow products have epilogues, so that the substitute for an epilogue is tested too.
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*,
                                                     int* found) {
  using pretended::as, pretended::layout, pretended::product;
  const auto& p = as<product>(how);
  if (!pretended::fits(p, as<layout>(a), as<layout>(b), as<layout>(d)) || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  if (p.then != CUBLASLT_EPILOGUE_DEFAULT && as<layout>(d).rows > 64) return CUBLAS_STATUS_NOT_SUPPORTED;
  return *found = 1, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* one, const void* a,
                                     cublasLtMatrixLayout_t la, const void* b, cublasLtMatrixLayout_t lb,
                                     const void* add, const void* c, cublasLtMatrixLayout_t, void* d,
                                     cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                                     cudaStream_t stream) {
  using pretended::as, pretended::layout;
  const auto p = as<pretended::product>(how);
  const layout of_a = as<layout>(la), of_b = as<layout>(lb), of_d = as<layout>(ld);
  const bool doubles = p.compute == CUBLAS_COMPUTE_64F;
  if (!pretended::fits(p, of_a, of_b, of_d) || c != d || doubles != (of_d.type == CUDA_R_64F) ||
      p.scale != (doubles ? CUDA_R_64F : CUDA_R_32F))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto number = [&](const void* at) {
    return doubles ? *static_cast<const double*>(at) : static_cast<double>(*static_cast<const float*>(at));
  };
  const cudaError_t enqueued = pretended::enqueue(stream, [=, x = number(one), y = number(add)] {
    pretended::multiply(p, x, y, of_a, a, of_b, b, of_d, d);
  });
  return enqueued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
