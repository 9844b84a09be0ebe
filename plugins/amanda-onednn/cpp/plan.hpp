// A graph as steps for one set of input shapes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dnnl.hpp"
#include "graph.hpp"

namespace amanda {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

#ifndef PRIMITIVES_FROM
#define PRIMITIVES_FROM 1024
#endif

// A tensor whose elements are known before anything runs.
struct Known {
  ref_tensor tensor;
  std::shared_ptr<void> hold;
};

// What the plans of a graph share: the graph, its constants and what is computed of them,
// and weights in the layouts that oneDNN prefers.
class Model {
 public:
  explicit Model(Graph graph) : graph(std::move(graph)) {}
  void set_weights(DLManagedTensorVersioned *const *weights, size_t count);
  dnnl::memory packed(int value, const ref_tensor &tensor, const Desc &from, const Desc &to);

  const Graph graph;
  std::map<int, Known> constants;  // by value
  // Elements and multiplications from which on oneDNN is used: below, a reference kernel
  // takes less time.
  int64_t primitives_from = PRIMITIVES_FROM;

 private:
  std::mutex lock_;
  std::map<int, std::vector<dnnl::memory>> packed_;
};

const dnnl::engine &engine();
// Attributes of a primitive whose scratchpad is a buffer of the plan: those of oneDNN belong
// to the thread that created the primitive, and other threads may run the plan.
dnnl::primitive_attr own_scratchpad();
int64_t element_count(const ref_tensor &tensor);
// Computes an op of the reference backend of known inputs.
Known fold(const Node &node, const std::vector<const ref_tensor *> &inputs, int part);

// Shape arguments depend on elements of inputs: there is no plan without them.
struct NeedsValues {};

class Plan {
 public:
  // With `eager`, every step runs when it is made, so that values are known.
  Plan(Model &model, const std::vector<ref_tensor> &inputs, bool eager);
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  // Computes the results; false if the caller cancelled it.
  bool run(const amanda_run_args &args);

 private:
  enum class Kind { ARENA, INPUT, OUTPUT, FIXED };
  struct Buffer {
    Kind kind = Kind::ARENA;
    size_t size = 0, offset = 0;
    int index = -1, first = -1, last = -1;  // input or output; steps that use it
    void *data = nullptr;
    bool has_views = false;
    std::shared_ptr<void> hold;
    std::vector<dnnl::memory> memories;
  };
  struct Value {
    ref_tensor tensor{};
    int buffer = -1, plain = -1;  // where it is; a copy in row-major order
    Desc desc;                    // of float32
    Dims strides;                 // empty: the layout is blocked
    float scale = 1;              // a factor that is still to be applied
    bool is_known = false, is_constant = false;
    std::shared_ptr<void> hold;
  };
  struct Step {
    std::string where;
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> args;
    std::function<const char *()> call;
    std::string kind;
  };
  // Ops that follow another one and are computed with it.
  struct Chain {
    dnnl::post_ops ops;
    std::vector<std::pair<int, int>> operands;  // number of the post-op, and value
    std::vector<Desc> descs;                    // of the operands
    std::vector<int> nodes;
    int value = -1, bias = -1, sum = -1;
    bool relu = false;  // after all post-ops: that of oneDNN makes 0 of NaN
  };
  enum class Follow { ALL, SIMPLE, NONE };

  void plan_node(int number);
  void plan_values(const std::vector<ref_tensor> &inputs);
  void finish();
  void place_arena();
  void place_result(int i);

  int new_buffer(size_t size, Kind kind = Kind::ARENA, void *data = nullptr);
  dnnl::memory memory(int buffer, const Desc &desc);
  void use(int buffer);
  void push(Step step, const std::vector<int> &buffers);
  void push_primitive(const dnnl::primitive_desc_base &made,
                      std::vector<std::tuple<int, int, Desc>> args);
  void call(const std::string &kind, const std::vector<int> &buffers,
            std::function<const char *()> function);
  void execute(Step &step);

  int plain(int value);
  int in_layout(int value, const Desc &logical, const Desc &wanted);
  void set_plain(int value, const ref_tensor &tensor, int buffer);
  void set_layout(int value, const ref_tensor &tensor, int buffer, const Desc &desc);
  bool view(int value, int from, const ref_tensor &tensor, const Dims &strides);
  bool is_plain(const Value &value) const;
  bool is_used_once(int value) const;
  bool is_large_float(int value) const;
  Desc row_major(const Value &value) const;
  ref_tensor shape_of(const Node &node, int part, ref_attributes &attrs,
                      std::vector<const ref_tensor *> &x);
  const ref_tensor *tensor_of(int value, bool needs_data);

  bool fold_node(const Node &node);
  void plan_reference(const Node &node);
  bool plan_conv(const Node &node);
  bool plan_matmul(const Node &node);
  bool plan_pool(const Node &node);
  bool plan_reshape(const Node &node);
  bool plan_transpose(const Node &node);
  bool plan_scale(const Node &node);
  bool plan_binary(const Node &node);
  bool plan_concat(const Node &node);
  bool plan_nan_to_constant(const Node &node);
  bool plan_power(const Node &node);
  void push_relu(int from, int to, size_t size);
  void push_nan(int from, int to, size_t size);
  bool plan_eltwise(const Node &node);
  void plan_softmax(const Node &node);
  void plan_layer_norm(const Node &node);
  void plan_mean(const Node &node);
  void scale_and_shift(const Node &node, const ref_tensor &y, int to, const int *affine);

  Chain follow(int value, const ref_tensor &tensor, Follow how, bool is_flat, int channel,
               bool has_bias);
  bool follow_add(Chain &chain, const Node &node, const ref_tensor &tensor, Follow how,
                  bool is_flat, int channel, bool has_bias);
  bool can_overwrite(int value, const Node &user) const;
  void add_operands(Chain &chain, std::vector<std::tuple<int, int, Desc>> &args);
  void close(const Chain &chain);

  Model &model_;
  const Graph &graph_;
  const bool eager_;
  int number_ = 0;
  std::vector<Value> values_;
  std::vector<char> done_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  std::vector<ref_tensor> results_;
  std::shared_ptr<void> arena_;
};

}  // namespace amanda
