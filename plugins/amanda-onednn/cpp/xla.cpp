// Layers as custom calls of XLA on the CPU, and what Python needs to prepare them.
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "layers.hpp"
#include "own_thread.hpp"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace amanda {
namespace {

using Numbers = std::vector<int64_t>;

constexpr size_t MOST_PLANS = 4096;

// Plans are kept: a program of XLA has one for each of its layers.
std::shared_ptr<const LayerPlan> plan_for(const Layer &layer, Numbers key,
                                          const Division &division, bool has_bias,
                                          bool has_relu) {
  static std::mutex lock;
  static std::map<Numbers, std::shared_ptr<const LayerPlan>> plans;
  key.insert(key.end(), {division.format, division.rows, has_bias, has_relu});
  const std::lock_guard<std::mutex> guard(lock);
  if (plans.size() >= MOST_PLANS && !plans.count(key)) plans.clear();
  auto &plan = plans[key];
  if (!plan)
    plan = in_own_thread(
        [&] { return std::make_shared<LayerPlan>(layer, division, has_bias, has_relu); });
  return plan;
}

// Tasks that threads take in turn. A thread that comes too late finds none left.
struct Queue {
  std::shared_ptr<const LayerPlan> plan;
  Arrays arrays;
  std::atomic<size_t> taken{0}, done{0};
  std::atomic<bool> has_failed{false};

  void work() {
    const size_t count = plan->task_count();
    for (size_t i; (i = taken.fetch_add(1)) < count; done.fetch_add(1)) {
      try {
        plan->run(i, arrays);
      } catch (...) {
        has_failed = true;
      }
    }
  }
};

void run_all(std::shared_ptr<const LayerPlan> plan, const Arrays &arrays,
             ffi::ThreadPool &threads, bool &has_failed) {
  const auto queue = std::make_shared<Queue>();
  const size_t count = plan->task_count();
  queue->plan = std::move(plan);
  queue->arrays = arrays;
  const size_t others = std::min<size_t>(std::max<int64_t>(threads.num_threads(), 1), count) - 1;
  for (size_t i = 0; i < others; i++) threads.Schedule([queue] { queue->work(); });
  queue->work();
  // What is left runs now on other threads: none of them waits for anything.
  for (int spins = 0; queue->done < count; spins++)
    if (spins > 1000) std::this_thread::yield();
  has_failed = queue->has_failed;
}

ffi::Error invalid(const char *message) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::string("amanda_onednn: ") + message);
}

using Input = ffi::Buffer<ffi::F32>;

ffi::Error run_layer(ffi::ThreadPool threads, Input x, Input weights, ffi::RemainingArgs more,
                     ffi::Result<Input> y, ffi::Span<const int64_t> numbers, int64_t format,
                     int64_t rows, bool has_bias, bool has_addend, bool has_relu) try {
  const Layer layer = Layer::parse(numbers.begin(), numbers.size());
  if (more.size() != size_t{has_bias} + size_t{has_addend}) return invalid("too few arguments");
  int64_t x_size = layer.batch * layer.inputs;
  for (const int64_t size : layer.sizes) x_size *= size;
  const int64_t y_size = layer.positions() * layer.outputs;
  Arrays arrays{x.typed_data(), weights.typed_data(), nullptr, nullptr, y->typed_data()};
  size_t at = 0;
  const auto take = [&](int64_t size) -> const float * {
    const auto found = more.get<Input>(at++);
    if (!found.has_value() || static_cast<int64_t>(found->element_count()) != size) return nullptr;
    return found->typed_data();
  };
  if (has_bias && !(arrays.bias = take(layer.outputs))) return invalid("another bias expected");
  if (has_addend && !(arrays.addend = take(y_size))) return invalid("another addend expected");
  if (static_cast<int64_t>(x.element_count()) != x_size ||
      static_cast<int64_t>(y->element_count()) != y_size || rows < 1)
    return invalid("arrays of other sizes expected");
  const auto plan = plan_for(layer, Numbers(numbers.begin(), numbers.end()),
                             {format, rows, layer.panel, 0}, has_bias, has_relu);
  if (static_cast<int64_t>(weights.element_count()) != plan->weights_size())
    return invalid("weights of another size expected");
  bool has_failed = false;
  run_all(plan, arrays, threads, has_failed);
  return has_failed ? invalid("oneDNN failed") : ffi::Error::Success();
} catch (const std::exception &error) {
  return invalid(error.what());
}

// Runs a function in a thread of its own; its exceptions are the result -1.
template <typename Function>
int64_t guarded(Function function) {
  try {
    return in_own_thread(function);
  } catch (const std::exception &) {
    return -1;
  }
}

}  // namespace
}  // namespace amanda

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED XLA_FFI_Error *amanda_onednn_layer(XLA_FFI_CallFrame *frame);
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    amanda_onednn_layer, amanda::run_layer,
    ffi::Ffi::Bind()
        .Ctx<ffi::ThreadPool>()
        .Arg<amanda::Input>()
        .Arg<amanda::Input>()
        .RemainingArgs()
        .Ret<amanda::Input>()
        .Attr<ffi::Span<const int64_t>>("layer")
        .Attr<int64_t>("format")
        .Attr<int64_t>("rows")
        .Attr<bool>("has_bias")
        .Attr<bool>("has_addend")
        .Attr<bool>("has_relu"));

// How a layer is divided: format, rows, panel, and the size of packed weights in floats. 0
// where oneDNN has no fast kernel, -1 for what is no layer. `found`: a format that is given,
// or 0.
EXPORTED int64_t amanda_onednn_divide(const int64_t *numbers, size_t count, int64_t found[4]) {
  return amanda::guarded([&]() -> int64_t {
    const auto division = amanda::divide(amanda::Layer::parse(numbers, count), found[0]);
    found[0] = division.format, found[1] = division.rows;
    found[2] = division.panel, found[3] = division.size;
    return division.size > 0;
  });
}

EXPORTED int64_t amanda_onednn_pack(const int64_t *numbers, size_t count, int64_t format,
                                    const float *weights, const int64_t *strides,
                                    float *packed) {
  return amanda::guarded([&] {
    amanda::pack(amanda::Layer::parse(numbers, count), format, weights, strides, packed);
    return int64_t{0};
  });
}
