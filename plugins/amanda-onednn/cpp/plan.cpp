#include "plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace amanda {
namespace {

constexpr size_t ALIGNMENT = 64;
constexpr size_t LARGEST_FOLDED = size_t{256} << 20;

std::shared_ptr<void> allocate(size_t size) {
  const size_t rounded = (std::max<size_t>(size, 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void *found = std::aligned_alloc(ALIGNMENT, rounded);
  if (!found) throw Fault("", "there is no memory");
  return {found, std::free};
}

size_t byte_size(const ref_tensor &t) {
  return static_cast<size_t>(element_count(t)) * ref_item_size(t.type);
}

Dims row_major_strides(const ref_tensor &t) {
  Dims strides(t.rank);
  int64_t step = 1;
  for (int d = t.rank - 1; d >= 0; step *= t.shape[d--]) strides[d] = step;
  return strides;
}

Desc strided_desc(const ref_tensor &t, const Dims &strides) {
  if (t.rank == 0) return Desc({1}, dnnl::memory::data_type::f32, Dims{1});
  return Desc(Dims(t.shape, t.shape + t.rank), dnnl::memory::data_type::f32, strides);
}

}  // namespace

const dnnl::engine &engine() {
  static const dnnl::engine found(dnnl::engine::kind::cpu, 0);
  return found;
}

int64_t element_count(const ref_tensor &tensor) {
  int64_t n = 1;
  for (int d = 0; d < tensor.rank; d++) n *= tensor.shape[d];
  return n;
}

Known fold(const Node &node, const std::vector<const ref_tensor *> &inputs, int part) {
  std::vector<const ref_tensor *> x(inputs.size() + 3);
  ref_attributes attrs = node.attrs;
  int count = 0;
  Known found{};
  const char *fault =
      ref_shape(node.reference, inputs.data(), static_cast<int>(inputs.size()), part, &attrs,
                &found.tensor, x.data(), &count);
  if (fault) throw Fault(node.where, fault);
  if (byte_size(found.tensor) > LARGEST_FOLDED) throw Fault(node.where, "too large to fold");
  found.hold = allocate(byte_size(found.tensor));
  found.tensor.data = found.hold.get();
  fault = ref_kernel(node.reference, &found.tensor, x.data(), &attrs);
  if (fault) throw Fault(node.where, fault);
  return found;
}

// -- What plans share ---------------------------------------------------------------------

void Model::set_weights(DLManagedTensorVersioned *const *weights, size_t count) {
  for (const Node &node : graph.nodes) {
    if (node.is_constant()) {
      Known known{};
      if (static_cast<size_t>(node.weight) >= count)
        throw Fault(node.where, "there is no such weight");
      if (ref_read_tensor(&known.tensor, &weights[node.weight]->dl_tensor))
        throw Fault(node.where, "a weight is of another dtype, or has strides");
      constants[node.outputs[0]] = known;
      continue;
    }
    std::vector<const ref_tensor *> inputs;
    for (const int value : node.inputs) {
      const auto found = constants.find(value);
      inputs.push_back(found == constants.end() ? nullptr : &found->second.tensor);
      if (value >= 0 && found == constants.end()) inputs.clear();
      if (inputs.empty()) break;
    }
    if (node.reference < 0 || inputs.empty()) continue;
    for (size_t part = 0; part < node.outputs.size(); part++) {
      try {
        constants[node.outputs[part]] = fold(node, inputs, static_cast<int>(part));
      } catch (const Fault &) {
        break;  // the plan reports it, if the op is needed at all
      }
    }
  }
}

dnnl::memory Model::packed(int value, const ref_tensor &tensor, const Desc &from,
                           const Desc &to) {
  const std::lock_guard<std::mutex> guard(lock_);
  for (const dnnl::memory &known : packed_[value])
    if (known.get_desc() == to) return known;
  dnnl::memory source(from, engine(), tensor.data), target(to, engine());
  dnnl::stream stream(engine());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
  packed_[value].push_back(target);
  return target;
}

// -- Making a plan ------------------------------------------------------------------------

Plan::Plan(Model &model, const std::vector<ref_tensor> &inputs, bool eager)
    : model_(model), graph_(model.graph), eager_(eager), values_(graph_.value_count()),
      done_(graph_.nodes.size()) {
  plan_values(inputs);
  for (size_t i = 0; i < graph_.nodes.size(); i++) {
    number_ = static_cast<int>(i);
    if (!done_[i]) plan_node(number_);
    done_[i] = 1;
  }
  finish();
}

void Plan::plan_values(const std::vector<ref_tensor> &inputs) {
  for (size_t i = 0; i < inputs.size(); i++) {
    const Kind kind = eager_ ? Kind::FIXED : Kind::INPUT;
    const int buffer = new_buffer(byte_size(inputs[i]), kind, inputs[i].data);
    buffers_[buffer].index = static_cast<int>(i);
    set_plain(graph_.parameters[i], inputs[i], buffer);
  }
  for (const auto &[number, known] : model_.constants) {
    Value &value = values_[number];
    value.tensor = known.tensor;
    value.is_known = value.is_constant = true;
  }
}

void Plan::plan_node(int number) {
  const Node &node = graph_.nodes[number];
  if (node.is_constant()) return;
  try {
    if (node.own == Own::SOFTMAX) return plan_softmax(node);
    if (node.own == Own::LAYER_NORM) return plan_layer_norm(node);
    if (node.own == Own::MEAN) return plan_mean(node);
    if (fold_node(node)) return;
    using Planner = bool (Plan::*)(const Node &);
    static const std::map<std::string, std::vector<Planner>> planners = {
        {"conv", {&Plan::plan_conv}},
        {"matmul", {&Plan::plan_matmul}},
        {"max_pool", {&Plan::plan_pool}},
        {"avg_pool", {&Plan::plan_pool}},
        {"reshape", {&Plan::plan_reshape}},
        {"squeeze", {&Plan::plan_reshape}},
        {"expand_dims", {&Plan::plan_reshape}},
        {"identity", {&Plan::plan_reshape}},
        {"transpose", {&Plan::plan_transpose}},
        {"concat", {&Plan::plan_concat}},
        {"isnan", {&Plan::plan_nan_to_constant}},
        {"add", {&Plan::plan_binary}},
        {"subtract", {&Plan::plan_binary}},
        {"multiply", {&Plan::plan_scale, &Plan::plan_binary}},
        {"divide", {&Plan::plan_binary}},
        {"pow", {&Plan::plan_power}},
    };
    const auto found = planners.find(node.type);
    if (found != planners.end())
      for (const Planner planner : found->second)
        if ((this->*planner)(node)) return;
    if (plan_eltwise(node)) return;
    plan_reference(node);
  } catch (const dnnl::error &fault) {
    throw Fault(node.where, std::string("oneDNN: ") + fault.what());
  } catch (const Fault &fault) {
    throw Fault(fault.where.empty() ? node.where : fault.where, fault.what());
  }
}

void Plan::finish() {
  results_.reserve(graph_.results.size());
  for (size_t i = 0; i < graph_.results.size(); i++) place_result(static_cast<int>(i));
  if (!eager_) place_arena();
}

void Plan::place_result(int i) {
  const int value = graph_.results[i], buffer = plain(value);
  results_.push_back(values_[value].tensor);
  results_.back().data = nullptr;
  if (eager_) {
    results_.back().data = buffers_[buffer].data;
    return;
  }
  if (buffers_[buffer].kind == Kind::ARENA) {
    buffers_[buffer].kind = Kind::OUTPUT;
    buffers_[buffer].index = i;
    return;
  }
  const size_t size = byte_size(values_[value].tensor);
  const int to = new_buffer(size, Kind::OUTPUT);
  buffers_[to].index = i;
  call("copy", {buffer, to}, [this, buffer, to, size]() -> const char * {
    if (size) std::memcpy(buffers_[to].data, buffers_[buffer].data, size);
    return nullptr;
  });
}

// Buffers that are not used at the same time share memory: the largest come first.
void Plan::place_arena() {
  std::vector<Buffer *> waiting, placed;
  for (Buffer &buffer : buffers_)
    if (buffer.kind == Kind::ARENA && buffer.first >= 0) waiting.push_back(&buffer);
  std::sort(waiting.begin(), waiting.end(),
            [](const Buffer *a, const Buffer *b) { return a->size > b->size; });
  size_t total = 0;
  for (Buffer *buffer : waiting) {
    const size_t size = (buffer->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    std::vector<std::pair<size_t, size_t>> taken;
    for (const Buffer *other : placed)
      if (other->first <= buffer->last && buffer->first <= other->last)
        taken.emplace_back(other->offset, other->offset + other->size);
    std::sort(taken.begin(), taken.end());
    size_t at = 0;
    for (const auto &[from, to] : taken) {
      if (from >= at + size) break;
      at = std::max(at, (to + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }
    buffer->offset = at;
    total = std::max(total, at + size);
    placed.push_back(buffer);
  }
  arena_ = allocate(total);
  for (Buffer *buffer : placed) buffer->data = static_cast<char *>(arena_.get()) + buffer->offset;
  for (Buffer &buffer : buffers_)
    if (buffer.data)
      for (dnnl::memory &each : buffer.memories) each.set_data_handle(buffer.data);
}

// -- Buffers and steps --------------------------------------------------------------------

int Plan::new_buffer(size_t size, Kind kind, void *data) {
  Buffer buffer;
  buffer.kind = kind, buffer.size = size, buffer.data = data;
  if (eager_ && !data) {
    buffer.hold = allocate(size);
    buffer.data = buffer.hold.get();
  }
  buffers_.push_back(std::move(buffer));
  return static_cast<int>(buffers_.size()) - 1;
}

dnnl::memory Plan::memory(int buffer, const Desc &desc) {
  dnnl::memory made(desc, engine(), DNNL_MEMORY_NONE);
  if (buffers_[buffer].data) made.set_data_handle(buffers_[buffer].data);
  buffers_[buffer].memories.push_back(made);
  return made;
}

void Plan::push(Step step, const std::vector<int> &buffers) {
  const int at = static_cast<int>(steps_.size());
  for (const int number : buffers) {
    Buffer &buffer = buffers_[number];
    if (buffer.first < 0) buffer.first = at;
    buffer.last = at;
  }
  step.where = graph_.nodes.empty() ? "" : graph_.nodes[number_].where;
  if (eager_) execute(step);
  steps_.push_back(std::move(step));
}

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void Plan::push_primitive(const dnnl::primitive_desc_base &made,
                          std::vector<std::tuple<int, int, Desc>> args) {
  if (made.get_primitive_attr().get_scratchpad_mode() != dnnl::scratchpad_mode::user)
    throw Fault("", "a primitive without a scratchpad of its own");
  const Desc scratchpad = made.scratchpad_desc();
  if (scratchpad.get_size())
    args.emplace_back(DNNL_ARG_SCRATCHPAD, new_buffer(scratchpad.get_size()), scratchpad);
  Step step;
  std::vector<int> buffers;
  step.primitive = dnnl::primitive(made.get());
  step.kind = made.impl_info_str();
  for (const auto &[name, buffer, desc] : args) {
    step.args[name] = memory(buffer, desc);
    buffers.push_back(buffer);
  }
  push(std::move(step), buffers);
}

void Plan::call(const std::string &kind, const std::vector<int> &buffers,
                std::function<const char *()> function) {
  Step step;
  step.kind = kind;
  step.call = std::move(function);
  push(std::move(step), buffers);
}

void Plan::execute(Step &step) {
  static thread_local dnnl::stream stream(engine());
  if (step.call) {
    const char *fault = step.call();
    if (fault) throw Fault(step.where, fault);
    return;
  }
  try {
    step.primitive.execute(stream, step.args);
  } catch (const dnnl::error &fault) {
    throw Fault(step.where, std::string("oneDNN: ") + fault.what());
  }
}

// -- Values -------------------------------------------------------------------------------

void Plan::set_plain(int number, const ref_tensor &tensor, int buffer) {
  Value &value = values_[number];
  value.tensor = tensor;
  value.tensor.data = nullptr;
  value.buffer = buffer;
  value.strides = row_major_strides(tensor);
  if (tensor.type == F32 && element_count(tensor)) value.desc = strided_desc(tensor, value.strides);
}

void Plan::set_layout(int number, const ref_tensor &tensor, int buffer, const Desc &desc) {
  Value &value = values_[number];
  value.tensor = tensor;
  value.tensor.data = nullptr;
  value.buffer = buffer;
  value.desc = desc;
  value.strides.clear();
  const bool has_blocks = desc.get_inner_nblks() > 0 || desc.get_padded_dims() != desc.get_dims();
  if (!has_blocks && desc.get_ndims() == tensor.rank) value.strides = desc.get_strides();
}

bool Plan::view(int number, int from, const ref_tensor &tensor, const Dims &strides) {
  const Value source = values_[from];
  Value &value = values_[number];
  value = source;
  value.tensor = tensor;
  value.tensor.data = nullptr;
  value.plain = -1;
  value.is_known = value.is_constant = false;
  value.hold = nullptr;
  value.strides = strides;
  if (tensor.type == F32 && element_count(tensor)) value.desc = strided_desc(tensor, strides);
  buffers_[source.buffer].has_views = true;
  return true;
}

bool Plan::is_plain(const Value &value) const {
  if (value.scale != 1 || static_cast<int>(value.strides.size()) != value.tensor.rank) return false;
  const Dims wanted = row_major_strides(value.tensor);
  for (int d = 0; d < value.tensor.rank; d++)
    if (value.tensor.shape[d] != 1 && value.strides[d] != wanted[d]) return false;
  return true;
}

Desc Plan::row_major(const Value &value) const {
  return strided_desc(value.tensor, row_major_strides(value.tensor));
}

// The buffer that has a value in row-major order.
int Plan::plain(int number) {
  Value &value = values_[number];
  if (value.is_known && value.buffer < 0) {
    const ref_tensor tensor = value.tensor;
    const int buffer = new_buffer(byte_size(tensor), Kind::FIXED,
                                  tensor.data ? tensor.data : const_cast<char *>(""));
    set_plain(number, tensor, buffer);
    values_[number].tensor.data = tensor.data;
    return buffer;
  }
  if (value.buffer < 0) throw Fault("", "a value is not computed");
  if (is_plain(value)) return value.buffer;
  if (value.plain >= 0) return value.plain;
  const Desc wanted = row_major(value);
  const float scale = value.scale;
  const int64_t count = element_count(value.tensor);
  const int to = new_buffer(static_cast<size_t>(count) * sizeof(float));
  const dnnl::reorder::primitive_desc made(engine(), value.desc, engine(), wanted,
                                          own_scratchpad());
  push_primitive(made, {{DNNL_ARG_FROM, value.buffer, value.desc}, {DNNL_ARG_TO, to, wanted}});
  if (scale != 1)
    call("scale", {to}, [this, to, scale, count]() -> const char * {
      float *p = static_cast<float *>(buffers_[to].data);
#pragma omp parallel for simd
      for (int64_t i = 0; i < count; i++) p[i] *= scale;
      return nullptr;
    });
  return values_[number].plain = to;
}

// The buffer that has a value, seen as `logical`, in a layout.
int Plan::in_layout(int number, const Desc &logical, const Desc &wanted) {
  const Value &value = values_[number];
  if (logical == wanted) return value.buffer;
  if (value.is_constant) {
    const dnnl::memory found = model_.packed(number, value.tensor, logical, wanted);
    return new_buffer(wanted.get_size(), Kind::FIXED, found.get_data_handle());
  }
  const int to = new_buffer(wanted.get_size());
  const dnnl::reorder::primitive_desc made(engine(), logical, engine(), wanted, own_scratchpad());
  push_primitive(made, {{DNNL_ARG_FROM, value.buffer, logical}, {DNNL_ARG_TO, to, wanted}});
  return to;
}

bool Plan::is_used_once(int value) const {
  const auto &results = graph_.results;
  return graph_.users[value].size() == 1 &&
         std::find(results.begin(), results.end(), value) == results.end();
}

// The tensor of an input; its elements, too, where it is read as a list.
const ref_tensor *Plan::tensor_of(int number, bool needs_data) {
  if (number < 0) return nullptr;
  if (needs_data && !values_[number].is_known) {
    if (!eager_) throw NeedsValues();
    const int buffer = plain(number);
    values_[number].tensor.data = buffers_[buffer].data;
  }
  return &values_[number].tensor;
}

ref_tensor Plan::shape_of(const Node &node, int part, ref_attributes &attrs,
                          std::vector<const ref_tensor *> &x) {
  std::vector<const ref_tensor *> inputs;
  for (size_t i = 0; i < node.inputs.size(); i++)
    inputs.push_back(
        tensor_of(node.inputs[i], ref_is_list(node.reference, static_cast<int>(i))));
  x.assign(inputs.size() + 3, nullptr);
  attrs = node.attrs;
  ref_tensor y{};
  int count = 0;
  const char *fault = ref_shape(node.reference, inputs.data(), static_cast<int>(inputs.size()),
                                part, &attrs, &y, x.data(), &count);
  if (fault) throw Fault(node.where, fault);
  x.resize(std::max(count, 3));
  return y;
}

// -- Reference kernels --------------------------------------------------------------------

// Computes an op now if its inputs are known, or if it reads their shapes alone.
bool Plan::fold_node(const Node &node) {
  constexpr int64_t MOST = 4096;
  const bool reads_shapes = node.type == "shape_of" || node.type == "dim" || node.type == "size";
  if (node.reference < 0 || eager_) return false;
  if (std::all_of(node.outputs.begin(), node.outputs.end(),
                  [this](int value) { return values_[value].is_known; }))
    return true;
  std::vector<const ref_tensor *> inputs;
  for (const int value : node.inputs) {
    inputs.push_back(value < 0 ? nullptr : &values_[value].tensor);
    if (value < 0 || reads_shapes) continue;
    if (!values_[value].is_known || element_count(values_[value].tensor) > MOST) return false;
  }
  for (size_t part = 0; part < node.outputs.size(); part++) {
    Known found = fold(node, inputs, static_cast<int>(part));
    Value &value = values_[node.outputs[part]];
    value.tensor = found.tensor;
    value.hold = found.hold;
    value.is_known = true;
  }
  return true;
}

namespace {

struct ReferenceCall {
  int op;
  ref_attributes attrs;
  ref_tensor y;
  int to;
  std::vector<ref_tensor> x;
  std::vector<int> from;  // buffers; -1: omitted
};

}  // namespace

void Plan::plan_reference(const Node &node) {
  if (node.reference < 0) throw Fault(node.where, "oneDNN has no kernel for this shape");
  for (size_t part = 0; part < node.outputs.size(); part++) {
    auto made = std::make_shared<ReferenceCall>();
    std::vector<const ref_tensor *> x;
    made->op = node.reference;
    made->y = shape_of(node, static_cast<int>(part), made->attrs, x);
    std::vector<int> buffers;
    for (const ref_tensor *each : x) {
      int buffer = -1;
      for (const int value : node.inputs)
        if (each && value >= 0 && each == &values_[value].tensor) buffer = plain(value);
      made->x.push_back(each ? *each : ref_tensor{});
      made->from.push_back(buffer);
      if (buffer >= 0) buffers.push_back(buffer);
    }
    made->to = new_buffer(byte_size(made->y));
    buffers.push_back(made->to);
    call("reference " + node.type, buffers, [this, made]() -> const char * {
      std::vector<const ref_tensor *> inputs(made->x.size());
      for (size_t i = 0; i < inputs.size(); i++) {
        if (made->from[i] < 0) continue;
        made->x[i].data = buffers_[made->from[i]].data;
        inputs[i] = &made->x[i];
      }
      made->y.data = buffers_[made->to].data;
      return ref_kernel(made->op, &made->y, inputs.data(), &made->attrs);
    });
    set_plain(node.outputs[part], made->y, made->to);
  }
}

// -- Running ------------------------------------------------------------------------------

namespace {

void *output_memory(const amanda_run_args &args, int i, const ref_tensor &t) {
  const DLTensor &given = args.outputs[i].tensor;
  if (!given.data) {
    void *made = args.host->allocate(args.host->context, i, ref_dtype_of_type(t.type), t.rank,
                                     t.shape);
    if (!made) throw Fault("", "there is no memory for result " + std::to_string(i));
    return made;
  }
  bool differs = given.ndim != t.rank || ref_type_of_dtype(given.dtype) != t.type;
  for (int d = 0; d < t.rank && !differs; d++) differs = given.shape[d] != t.shape[d];
  if (differs)
    throw Fault("", "result " + std::to_string(i) + " is of another shape than its memory");
  return static_cast<char *>(given.data) + given.byte_offset;
}

}  // namespace

bool Plan::run(const amanda_run_args &args) {
  std::vector<void *> outputs;
  for (size_t i = 0; i < results_.size(); i++)
    outputs.push_back(output_memory(args, static_cast<int>(i), results_[i]));
  if (eager_) {
    for (size_t i = 0; i < results_.size(); i++)
      if (byte_size(results_[i])) std::memcpy(outputs[i], results_[i].data, byte_size(results_[i]));
    return true;
  }
  for (Buffer &buffer : buffers_) {
    if (buffer.kind == Kind::INPUT) {
      const DLTensor &given = args.inputs[buffer.index];
      buffer.data = static_cast<char *>(given.data) + given.byte_offset;
    } else if (buffer.kind == Kind::OUTPUT) {
      buffer.data = outputs[buffer.index];
    } else {
      continue;
    }
    for (dnnl::memory &each : buffer.memories) each.set_data_handle(buffer.data);
  }
  const amanda_host *host = args.host;
  for (Step &step : steps_) {
    if (host->cancelled && host->cancelled(host->context)) return false;
    execute(step);
  }
  return true;
}

}  // namespace amanda
