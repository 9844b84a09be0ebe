// The C interface of the backend: reading graphs, plans by input shapes, errors.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>

#include <pthread.h>

#include "own_thread.hpp"
#include "plan.hpp"

namespace amanda {
namespace {

int32_t fail(amanda_error *error, const std::string &where, const char *message) {
  if (!error || error->size < sizeof *error) return AMANDA_FAILED;
  std::snprintf(error->message, sizeof error->message, "%s", message);
  std::snprintf(error->where, sizeof error->where, "%s", where.c_str());
  error->expected[0] = error->got[0] = 0;
  return AMANDA_FAILED;
}

// Runs a function whose exceptions become errors.
template <typename Function>
int32_t guarded(amanda_error *error, Function function) {
  try {
    return function();
  } catch (const Fault &fault) {
    return fail(error, fault.where, fault.what());
  } catch (const NeedsValues &) {
    return fail(error, "", "shape arguments depend on values");
  } catch (const dnnl::error &fault) {
    return fail(error, "", (std::string("oneDNN: ") + fault.what()).c_str());
  } catch (const std::exception &fault) {
    return fail(error, "", fault.what());
  }
}

// Whether this process is a fork of one in which a graph had run. A fork has none of the
// threads that OpenMP had started, and OpenMP would wait for them without end.
std::atomic<bool> has_run{false}, is_forked{false};
void note_fork() { is_forked = has_run.load(); }
[[maybe_unused]] const int is_unwatched = pthread_atfork(nullptr, nullptr, note_fork);

// What a plan is for. Primitives keep the number of threads that they were made for.
std::string key_of(const std::vector<ref_tensor> &inputs) {
  std::string key = std::to_string(omp_get_max_threads()) + ';';
  for (const ref_tensor &t : inputs) {
    key += std::to_string(t.type) + ':';
    for (int d = 0; d < t.rank; d++) key += std::to_string(t.shape[d]) + ',';
  }
  return key;
}

constexpr size_t MOST_PLANS = 16;

class Executable {
 public:
  Executable(Graph graph, DLManagedTensorVersioned *const *weights, size_t count)
      : model_(std::move(graph)) {
    model_.set_weights(weights, count);
    weights_.assign(weights, weights + count);
  }
  void set_options(const Json &options) {
    const Json *from = options.find("primitives_from");
    if (!from) return;
    const bool is_digits = from->text.find_first_not_of("0123456789") == std::string::npos;
    if (from->kind != Json::WORD || !is_digits || from->text.size() > 18 ||
        from->integer() < 1)
      throw Fault("", "the option primitives_from is no positive integer");
    model_.primitives_from = from->integer();
  }
  // After this, the weights are freed with the executable.
  void own_weights() { owns_ = true; }
  ~Executable() {
    if (!owns_) return;
    for (auto *weight : weights_)
      if (weight->deleter) weight->deleter(weight);
  }

  int32_t run(const amanda_run_args &args) {
    std::vector<ref_tensor> inputs(args.input_count);
    if (args.input_count != model_.graph.parameters.size() ||
        args.output_count != model_.graph.results.size())
      throw Fault("", "inputs or results of another number than the graph's");
    for (size_t i = 0; i < inputs.size(); i++) {
      if (ref_read_tensor(&inputs[i], &args.inputs[i]))
        throw Fault("", "an input is of a dtype or rank that is not supported");
      const int type = model_.graph.types[model_.graph.parameters[i]];
      if (type != UNKNOWN && type != inputs[i].type)
        throw Fault("", "an input is of another dtype than the graph's");
    }
    const std::string key = key_of(inputs);
    std::unique_ptr<Plan> plan = take(key);
    if (!plan) plan = make(inputs, key);
    const bool is_done = plan->run(args);
    if (!is_eager(key)) give(key, std::move(plan));
    return is_done ? AMANDA_OK : AMANDA_CANCELLED;
  }

 private:
  Model model_;
  std::vector<DLManagedTensorVersioned *> weights_;
  bool owns_ = false;
  std::mutex lock_;
  std::list<std::pair<std::string, std::unique_ptr<Plan>>> plans_;  // newest first
  std::vector<std::string> eager_;  // inputs of these shapes have no plan

  bool is_eager(const std::string &key) {
    const std::lock_guard<std::mutex> guard(lock_);
    return std::find(eager_.begin(), eager_.end(), key) != eager_.end();
  }
  std::unique_ptr<Plan> take(const std::string &key) {
    const std::lock_guard<std::mutex> guard(lock_);
    for (auto at = plans_.begin(); at != plans_.end(); ++at)
      if (at->first == key) {
        auto found = std::move(at->second);
        plans_.erase(at);
        return found;
      }
    return nullptr;
  }
  void give(const std::string &key, std::unique_ptr<Plan> plan) {
    const std::lock_guard<std::mutex> guard(lock_);
    plans_.emplace_front(key, std::move(plan));
    if (plans_.size() > MOST_PLANS) plans_.pop_back();
  }
  std::unique_ptr<Plan> new_plan(const std::vector<ref_tensor> &inputs, bool is_eager) {
    return in_own_thread([&] { return std::make_unique<Plan>(model_, inputs, is_eager); });
  }
  std::unique_ptr<Plan> make(const std::vector<ref_tensor> &inputs, const std::string &key) {
    if (!is_eager(key)) {
      try {
        return new_plan(inputs, false);
      } catch (const NeedsValues &) {
        const std::lock_guard<std::mutex> guard(lock_);
        if (eager_.size() < 4096) eager_.push_back(key);
      }
    }
    return new_plan(inputs, true);
  }
};

int32_t takes(const char *op, size_t length, amanda_error *error) {
  const int32_t status = guarded(error, [&] {
    const Graph graph = Graph::read(op, length);
    for (const Node &node : graph.nodes)
      if (node.reference >= 0 && !ref_takes(op, length, error)) return AMANDA_FAILED;
    return AMANDA_OK;
  });
  return status == AMANDA_OK;
}

int32_t compile(const amanda_compile_args *args, void **executable, amanda_error *error) {
  return guarded(error, [&] {
    auto made = std::make_unique<Executable>(Graph::read(args->graph, args->graph_length),
                                             args->weights, args->weight_count);
    if (args->options_length)
      made->set_options(Json::read(args->options, args->options_length));
    made->own_weights();
    *executable = made.release();
    return AMANDA_OK;
  });
}

int32_t run(void *executable, const amanda_run_args *args, amanda_error *error) {
  return guarded(error, [&] {
    const OneThread one(is_forked);
    has_run = true;
    return static_cast<Executable *>(executable)->run(*args);
  });
}

void free_executable(void *executable) { delete static_cast<Executable *>(executable); }

}  // namespace
}  // namespace amanda

extern "C" AMANDA_EXPORT const amanda_backend *amanda_backend_open(uint32_t version) {
  static const char *const devices[] = {"cpu", nullptr};
  static const std::string library = [] {
    const dnnl_version_t *found = dnnl_version();
    return "oneDNN " + std::to_string(found->major) + "." + std::to_string(found->minor) +
           "." + std::to_string(found->patch);
  }();
  static const amanda_backend backend = {
      sizeof(amanda_backend), AMANDA_BACKEND_VERSION, "onednn",        library.c_str(),
      "amanda/std/1",         devices,                amanda::takes,   amanda::compile,
      amanda::run,            amanda::free_executable};
  return version >= AMANDA_BACKEND_VERSION ? &backend : nullptr;
}
