// How ops become primitives of oneDNN.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "plan.hpp"

namespace amanda {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using Args = std::vector<std::tuple<int, int, Desc>>;

constexpr auto F32_TYPE = dnnl::memory::data_type::f32;
constexpr auto ANY = dnnl::memory::format_tag::any;
// Elements from which several threads are faster than one.
constexpr int64_t PARALLEL_FROM = 1 << 14;

Dims dims_of(const ref_tensor &t) { return Dims(t.shape, t.shape + t.rank); }

Dims strides_of(const Dims &dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0; step *= dims[d]) strides[d] = step;
  return strides;
}

Desc row_major_desc(const Dims &dims) { return Desc(dims, F32_TYPE, strides_of(dims)); }
Desc any_desc(const Dims &dims) { return Desc(dims, F32_TYPE, ANY); }

bool is_reference(const char *implementation) {
  return std::strncmp(implementation, "ref", 3) == 0;
}

bool same_shape(const ref_tensor &a, const ref_tensor &b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

// Dims with leading ones.
Dims widened(const Dims &dims, size_t rank, int64_t fill = 1) {
  Dims wide(rank - dims.size(), fill);
  wide.insert(wide.end(), dims.begin(), dims.end());
  return wide;
}

// Axes of NC* in a tensor of N*C.
std::vector<int> channels_first(int rank) {
  std::vector<int> axes = {0, rank - 1};
  for (int d = 1; d < rank - 1; d++) axes.push_back(d);
  return axes;
}

// A layout with its axes in another order: axis d of the result is axes[d] of `desc`.
Desc reordered(const Desc &desc, const std::vector<int> &axes) {
  std::vector<int> places(axes.size());
  for (size_t d = 0; d < axes.size(); d++) places[axes[d]] = static_cast<int>(d);
  return desc.permute_axes(places);
}

std::vector<int> inverse(const std::vector<int> &axes) {
  std::vector<int> found(axes.size());
  for (size_t d = 0; d < axes.size(); d++) found[axes[d]] = static_cast<int>(d);
  return found;
}

// The element of an index along some axes, counted in row-major order.
int64_t element_at(int64_t i, const Dims &sizes, const Dims &steps) {
  int64_t found = 0;
  for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) found += i % sizes[d] * steps[d];
  return found;
}

// Strides of a reshaped tensor that stays where it is; empty if it cannot.
Dims reshaped_strides(const ref_tensor &from, const Dims &strides, const ref_tensor &to) {
  Dims sizes, steps, found(to.rank, 1);
  for (int d = 0; d < from.rank; d++)
    if (from.shape[d] != 1) sizes.push_back(from.shape[d]), steps.push_back(strides[d]);
  size_t i = 0;
  int k = 0;
  while (i < sizes.size()) {
    size_t j = i + 1;
    int end = k;
    int64_t old_size = sizes[i], new_size = 1;
    while (end < to.rank && new_size < old_size) new_size *= to.shape[end++];
    while (old_size != new_size) {
      if (old_size < new_size) {
        if (j == sizes.size() || steps[j - 1] != steps[j] * sizes[j]) return {};
        old_size *= sizes[j++];
      } else {
        if (end == to.rank) return {};
        new_size *= to.shape[end++];
      }
    }
    int64_t step = steps[j - 1];
    for (int d = end - 1; d >= k; step *= to.shape[d--]) found[d] = step;
    i = j, k = end;
  }
  return found;
}

}  // namespace

bool Plan::is_large_float(int number) const {
  if (number < 0) return false;
  const ref_tensor &t = values_[number].tensor;
  return t.type == F32 && element_count(t) >= model_.primitives_from;
}

// -- Ops that follow others ---------------------------------------------------------------

namespace {

bool activation_of(const Node &node, algorithm &found, float &alpha) {
  alpha = 0;
  if (node.own == Own::GELU)
    found = node.approximate ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf;
  else if (node.own == Own::SILU) found = algorithm::eltwise_swish, alpha = 1;
  else if (node.type == "tanh") found = algorithm::eltwise_tanh;
  else return false;
  return true;
}

}  // namespace

// Whether a result may be added to a value where it is: nothing else reads it any more.
bool Plan::can_overwrite(int number, const Node &user) const {
  const Value &value = values_[number];
  const auto &results = graph_.results;
  if (value.is_known || value.buffer < 0 || value.scale != 1 || eager_) return false;
  const Buffer &buffer = buffers_[value.buffer];
  if (buffer.kind != Kind::ARENA || buffer.has_views) return false;
  if (std::find(results.begin(), results.end(), number) != results.end()) return false;
  for (const int each : graph_.users[number])
    if (!done_[each] && &graph_.nodes[each] != &user) return false;
  return true;
}

bool Plan::follow_add(Chain &chain, const Node &node, const ref_tensor &tensor, Follow how,
                      bool is_flat, int channel, bool has_bias) {
  if (node.inputs.size() != 2 || node.inputs[0] == node.inputs[1]) return false;
  const int other = node.inputs[0] == chain.value ? node.inputs[1] : node.inputs[0];
  const Value &value = values_[other];
  const ref_tensor &t = value.tensor;
  if ((!value.is_known && value.buffer < 0) || t.type != F32 || t.rank > tensor.rank) return false;
  const int shift = tensor.rank - t.rank;
  bool is_channel = channel >= shift;
  for (int d = 0; d < t.rank; d++) {
    if (t.shape[d] != 1 && t.shape[d] != tensor.shape[d + shift]) return false;
    is_channel = is_channel && t.shape[d] == (d + shift == channel ? tensor.shape[channel] : 1);
  }
  if (is_channel && !has_bias && chain.bias < 0 && chain.ops.len() == 0) {
    chain.bias = other;
    return true;
  }
  if (how != Follow::ALL || value.is_known) return false;
  const bool is_same = same_shape(t, tensor);
  if (is_flat || channel == 1) {
    if (!is_same || value.scale != 1) return false;
  }
  if (is_same && channel == 1 && chain.ops.len() == 0 && can_overwrite(other, node)) {
    chain.sum = other;
    chain.ops.append_sum(1.0f);
    return true;
  }
  Desc desc;
  if (is_flat) {
    const int64_t columns = tensor.shape[tensor.rank - 1];
    desc = row_major_desc({element_count(tensor) / columns, columns});
  } else if (channel == 1) {
    desc = value.desc;
  } else {
    desc = row_major_desc(widened(dims_of(t), tensor.rank));
  }
  chain.operands.emplace_back(chain.ops.len(), other);
  chain.descs.push_back(desc);
  chain.ops.append_binary(algorithm::binary_add, desc);
  return true;
}

// The ops after `number` that one primitive computes with it. `channel` is the axis of a
// bias; with 1, operands may be of any layout.
Plan::Chain Plan::follow(int number, const ref_tensor &tensor, Follow how, bool is_flat,
                         int channel, bool has_bias) {
  constexpr int LONGEST = 6;
  Chain chain;
  chain.value = number;
  while (how != Follow::NONE && static_cast<int>(chain.nodes.size()) < LONGEST &&
         is_used_once(chain.value)) {
    const int next = graph_.users[chain.value][0];
    const Node &node = graph_.nodes[next];
    algorithm found{};
    float alpha = 0;
    if (done_[next]) break;
    if (node.own == Own::RELU) {
      chain.relu = true;
    } else if (activation_of(node, found, alpha)) {
      chain.ops.append_eltwise(found, alpha, 0);
    } else if (node.type != "add" ||
               !follow_add(chain, node, tensor, how, is_flat, channel, has_bias)) {
      break;
    }
    chain.nodes.push_back(next);
    chain.value = node.outputs[0];
    if (chain.relu) break;
  }
  return chain;
}

void Plan::add_operands(Chain &chain, Args &args) {
  for (size_t i = 0; i < chain.operands.size(); i++) {
    const auto &[place, number] = chain.operands[i];
    const Value &value = values_[number];
    const int buffer = chain.descs[i] == value.desc && value.scale == 1 ? value.buffer : plain(number);
    args.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(place) | DNNL_ARG_SRC_1, buffer,
                      chain.descs[i]);
  }
}

void Plan::close(const Chain &chain) {
  for (const int number : chain.nodes) done_[number] = 1;
}

// -- Convolutions and pooling -------------------------------------------------------------

bool Plan::plan_conv(const Node &node) {
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  const int input = node.inputs[0], kernel = node.inputs[1];
  const int bias = node.inputs.size() > 2 ? node.inputs[2] : -1;
  const ref_tensor w = values_[kernel].tensor;
  if (!element_count(y) || !element_count(values_[input].tensor) || !element_count(w)) return false;
  const int rank = y.rank, spatial = rank - 2;
  for (const int value : {input, kernel})
    if (values_[value].scale != 1 || values_[value].buffer < 0) plain(value);
  if (values_[input].scale != 1 || !is_plain(values_[kernel])) return false;

  const std::vector<int> first = channels_first(rank);
  const auto logical = [&](const Desc &desc) {
    return a.channels_last ? reordered(desc, first) : desc;
  };
  const Desc source = logical(values_[input].desc);
  Dims out = dims_of(y);
  if (a.channels_last) out = logical(row_major_desc(out)).get_dims();

  // The kernel as (groups, O, I, *), wherever these axes are.
  std::vector<int> axes(rank);  // O, I, * in the kernel
  for (int d = 0; d < rank; d++) axes[d] = d;
  if (a.kernel_layout == 1) std::swap(axes[0], axes[1]);
  if (a.kernel_layout == 2)
    for (int d = 0; d < rank; d++) axes[d] = d < 2 ? rank - 1 - d : d - 2;
  if (a.kernel_layout == 3) {
    axes[1] = rank - 1;
    for (int d = 2; d < rank; d++) axes[d] = d - 1;
  }
  const Dims own = strides_of(dims_of(w));
  Dims wd, ws;
  if (a.groups > 1) {
    wd = {a.groups, w.shape[axes[0]] / a.groups};
    ws = {w.shape[axes[0]] / a.groups * own[axes[0]], own[axes[0]]};
  } else {
    wd = {w.shape[axes[0]]}, ws = {own[axes[0]]};
  }
  for (int d = 1; d < rank; d++) wd.push_back(w.shape[axes[d]]), ws.push_back(own[axes[d]]);

  Dims steps, gaps, low, high;
  for (int d = 0; d < spatial; d++) {
    steps.push_back(a.list[L_STEPS].item[d]);
    gaps.push_back(a.list[L_DILATIONS].item[d] - 1);
    low.push_back(a.list[L_PADS].item[2 * d]);
    high.push_back(a.list[L_PADS].item[2 * d + 1]);
  }
  for (const Follow how : {Follow::ALL, Follow::SIMPLE, Follow::NONE}) {
    if (a.channels_last && how == Follow::ALL) continue;
    Chain chain = follow(node.outputs[0], y, how, false, a.channels_last ? rank - 1 : 1, bias >= 0);
    const int shift = bias >= 0 ? bias : chain.bias;
    dnnl::primitive_attr attr = own_scratchpad();
    attr.set_post_ops(chain.ops);
    const Desc any = any_desc(out);
    const Desc target = chain.sum >= 0 ? values_[chain.sum].desc : any;
    const Desc bias_desc = shift >= 0 ? row_major_desc({out[1]}) : Desc();
    const dnnl::convolution_forward::primitive_desc made(
        engine(), prop_kind::forward_inference, algorithm::convolution_auto,
        any_desc(source.get_dims()), any_desc(wd), bias_desc, target, steps, gaps, low, high, attr,
        true);
    if (!made) continue;
    if (is_reference(made.impl_info_str()) && how != Follow::NONE) continue;
    Args args = {
        {DNNL_ARG_SRC, in_layout(input, source, made.src_desc()), made.src_desc()},
        {DNNL_ARG_WEIGHTS, in_layout(kernel, Desc(wd, F32_TYPE, ws), made.weights_desc()),
         made.weights_desc()}};
    if (shift >= 0) args.emplace_back(DNNL_ARG_BIAS, plain(shift), bias_desc);
    add_operands(chain, args);
    const int to = chain.sum >= 0 ? values_[chain.sum].buffer
                                  : new_buffer(made.dst_desc().get_size());
    args.emplace_back(DNNL_ARG_DST, to, made.dst_desc());
    push_primitive(made, args);
    if (chain.relu) push_relu(to, to, made.dst_desc().get_size());
    const Desc placed = a.channels_last ? reordered(made.dst_desc(), inverse(first)) : made.dst_desc();
    set_layout(chain.value, y, to, placed);
    close(chain);
    return true;
  }
  return false;
}

bool Plan::plan_pool(const Node &node) {
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  const int input = node.inputs[0];
  if (y.type != F32 || !element_count(y) || !element_count(values_[input].tensor)) return false;
  const int rank = y.rank;
  const bool is_max = node.type == "max_pool";
  if (values_[input].buffer < 0) plain(input);
  const std::vector<int> first = channels_first(rank);
  Dims steps, window, low, high, gaps(rank - 2, 0);
  for (int d = 0; d < rank - 2; d++) {
    const int at = d + (a.channels_last ? 1 : 2);
    const int64_t size = values_[input].tensor.shape[at], step = a.list[L_STEPS].item[d];
    const int64_t span = a.list[L_SIZES].item[d], before = a.list[L_PADS].item[2 * d];
    const int64_t after = a.list[L_PADS].item[2 * d + 1];
    const int64_t needed = (y.shape[at] - 1) * step + span - size - before;
    if (a.list[L_DILATIONS].item[d] != 1 || before >= span || after >= span || needed >= span ||
        before < 0)
      return false;
    if (!is_max && needed > after) return false;  // windows beyond the padding
    steps.push_back(step);
    window.push_back(span);
    low.push_back(before);
    high.push_back(std::max(after, needed));
  }
  if (values_[input].scale != 1) return false;
  const Desc source = a.channels_last ? reordered(values_[input].desc, first) : values_[input].desc;
  Dims out = dims_of(y);
  if (a.channels_last) out = reordered(row_major_desc(out), first).get_dims();
  const algorithm how = is_max ? algorithm::pooling_max
                        : a.count_pads ? algorithm::pooling_avg_include_padding
                                       : algorithm::pooling_avg_exclude_padding;
  const dnnl::pooling_forward::primitive_desc made(engine(), prop_kind::forward_inference, how,
                                                   source, any_desc(out), steps, window, gaps, low,
                                                   high, own_scratchpad(), true);
  if (!made) return false;
  const int to = new_buffer(made.dst_desc().get_size());
  push_primitive(made, {{DNNL_ARG_SRC, values_[input].buffer, source},
                        {DNNL_ARG_DST, to, made.dst_desc()}});
  set_layout(node.outputs[0], y, to,
             a.channels_last ? reordered(made.dst_desc(), inverse(first)) : made.dst_desc());
  return true;
}

// -- Products -----------------------------------------------------------------------------

bool Plan::plan_matmul(const Node &node) {
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  const int left = node.inputs[0], right = node.inputs[1];
  const ref_tensor p = values_[left].tensor, q = values_[right].tensor;
  if (y.type != F32 || p.rank < 2 || q.rank < 2 || !element_count(p) || !element_count(q) ||
      element_count(y) * p.shape[p.rank - 1] < model_.primitives_from)
    return false;
  for (const int value : {left, right})
    if (values_[value].buffer < 0) plain(value);
  const bool is_flat = q.rank == 2;
  const int64_t depth = p.shape[p.rank - 1], columns = q.shape[q.rank - 1];

  // An operand as it is, with its strides, or else in row-major order.
  struct Operand {
    int buffer;
    Desc desc;
    float scale;
  };
  const auto operand = [&](int number, bool as_it_is) -> Operand {
    const Value &value = values_[number];
    const ref_tensor &t = value.tensor;
    const bool flat = is_flat && number == left && t.rank > 2;
    const Dims dims = flat ? Dims{element_count(t) / depth, depth} : widened(dims_of(t), y.rank);
    if (as_it_is && !flat && static_cast<int>(value.strides.size()) == t.rank) {
      const Dims short_dims = dims_of(t);
      const int64_t most = value.strides[0] * short_dims[0];
      return {value.buffer, Desc(dims, F32_TYPE, widened(value.strides, dims.size(), most)),
              value.scale};
    }
    return {plain(number), row_major_desc(dims), 1};
  };
  const Dims out = is_flat && y.rank > 2 ? Dims{element_count(y) / columns, columns} : dims_of(y);
  struct Try {
    Follow how;
    bool as_it_is, turned;
  };
  const int after = is_used_once(node.outputs[0]) ? graph_.users[node.outputs[0]][0] : -1;
  const bool can_turn = !is_flat && after >= 0 && graph_.nodes[after].type == "transpose" &&
                        graph_.nodes[after].attrs.list[L_AXES].count == y.rank;
  for (const Try &each : {Try{Follow::ALL, true, true}, Try{Follow::ALL, true, false},
                          Try{Follow::ALL, false, false}, Try{Follow::SIMPLE, false, false},
                          Try{Follow::NONE, false, false}}) {
    if (each.turned && !can_turn) continue;
    const Operand one = operand(left, each.as_it_is);
    const bool is_packed = values_[right].is_constant && q.rank == 2;
    Operand two = operand(right, each.as_it_is || is_packed);
    if (is_packed) two.desc = row_major_desc(dims_of(q));
    const float scale = one.scale * two.scale;
    Chain chain = follow(node.outputs[0], y, each.how, is_flat, y.rank - 1, scale != 1);
    dnnl::primitive_attr attr = own_scratchpad();
    dnnl::post_ops ops = chain.ops;
    if (scale != 1) {
      if (!chain.operands.empty() || ops.len()) {
        // the factor comes first
        dnnl::post_ops scaled;
        scaled.append_eltwise(algorithm::eltwise_linear, scale, 0);
        for (int i = 0, k = 0; i < ops.len(); i++) {
          if (ops.kind(i) == dnnl::primitive::kind::eltwise) {
            algorithm how{};
            float alpha = 0, beta = 0;
            ops.get_params_eltwise(i, how, alpha, beta);
            scaled.append_eltwise(how, alpha, beta);
          } else {
            scaled.append_binary(algorithm::binary_add, chain.descs[k++]);
          }
        }
        for (auto &place : chain.operands) place.first++;
        ops = scaled;
      } else {
        ops.append_eltwise(algorithm::eltwise_linear, scale, 0);
      }
    }
    attr.set_post_ops(ops);
    Desc target = row_major_desc(out);
    Dims strides = strides_of(out);
    if (each.turned) {
      const ref_list &perm = graph_.nodes[after].attrs.list[L_AXES];
      Dims turned(y.rank), dims(y.rank);
      for (int d = 0; d < y.rank; d++) dims[d] = y.shape[(perm.item[d] + y.rank) % y.rank];
      const Dims steps = strides_of(dims);
      for (int d = 0; d < y.rank; d++) turned[(perm.item[d] + y.rank) % y.rank] = steps[d];
      target = Desc(out, F32_TYPE, turned), strides = turned;
    }
    const Desc weights = is_packed ? any_desc(dims_of(q)) : two.desc;
    Dims bias_dims(out.size(), 1);
    bias_dims.back() = columns;
    const Desc bias = chain.bias >= 0 ? row_major_desc(bias_dims) : Desc();
    const dnnl::matmul::primitive_desc made(engine(), one.desc, weights, bias, target, attr, true);
    if (!made) continue;
    if (is_reference(made.impl_info_str()) && each.how != Follow::NONE) continue;
    const Desc chosen = made.weights_desc();
    Args args = {{DNNL_ARG_SRC, one.buffer, one.desc},
                 {DNNL_ARG_WEIGHTS, is_packed ? in_layout(right, two.desc, chosen) : two.buffer,
                  chosen}};
    if (chain.bias >= 0) args.emplace_back(DNNL_ARG_BIAS, plain(chain.bias), bias);
    add_operands(chain, args);
    const int to = new_buffer(target.get_size());
    args.emplace_back(DNNL_ARG_DST, to, target);
    push_primitive(made, args);
    if (chain.relu) push_relu(to, to, target.get_size());
    set_plain(chain.value, y, to);
    if (each.turned) set_layout(chain.value, y, to, target);
    close(chain);
    return true;
  }
  return false;
}

// A factor that a product can apply is left to it.
bool Plan::plan_scale(const Node &node) {
  const int left = node.inputs[0], right = node.inputs[1];
  const int number = values_[left].is_known ? right : left, other = number == left ? right : left;
  const Value &factor = values_[other];
  if (!factor.is_known || factor.tensor.type != F32 || element_count(factor.tensor) != 1 ||
      factor.tensor.rank > values_[number].tensor.rank || values_[number].is_known ||
      !is_large_float(number) || !is_used_once(node.outputs[0]) || values_[number].strides.empty())
    return false;
  if (graph_.nodes[graph_.users[node.outputs[0]][0]].type != "matmul") return false;
  const float scale = *static_cast<const float *>(factor.tensor.data);
  const ref_tensor tensor = values_[number].tensor;
  const Dims strides = values_[number].strides;
  view(node.outputs[0], number, tensor, strides);
  values_[node.outputs[0]].scale *= scale;
  return true;
}

// -- Shapes -------------------------------------------------------------------------------

bool Plan::plan_reshape(const Node &node) {
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  const int input = node.inputs[0];
  if (values_[input].buffer < 0) plain(input);
  const Value &value = values_[input];
  if (static_cast<int>(value.strides.size()) == value.tensor.rank && element_count(y)) {
    const Dims strides = reshaped_strides(value.tensor, value.strides, y);
    if (static_cast<int>(strides.size()) == y.rank && (y.rank || value.scale == 1))
      return view(node.outputs[0], input, y, strides);
  }
  const int buffer = plain(input);
  buffers_[buffer].has_views = true;
  set_plain(node.outputs[0], y, buffer);
  return true;
}

bool Plan::plan_transpose(const Node &node) {
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  const int input = node.inputs[0];
  if (y.type != F32 || !element_count(y) || y.rank < 2) return false;
  if (values_[input].buffer < 0) plain(input);
  const Value &value = values_[input];
  std::vector<int> axes(y.rank);
  for (int d = 0; d < y.rank; d++) axes[d] = static_cast<int>(a.list[L_AXES].item[d]);
  if (static_cast<int>(value.strides.size()) == y.rank) {
    Dims strides(y.rank);
    for (int d = 0; d < y.rank; d++) strides[d] = value.strides[axes[d]];
    return view(node.outputs[0], input, y, strides);
  }
  const float scale = value.scale;
  const int buffer = value.buffer;
  buffers_[buffer].has_views = true;
  set_layout(node.outputs[0], y, buffer, reordered(value.desc, axes));
  values_[node.outputs[0]].scale = scale;
  return true;
}

bool Plan::plan_concat(const Node &node) {
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  bool has_blocks = false;
  std::vector<Desc> descs;
  if (y.type != F32) return false;
  for (const int number : node.inputs) {
    if (!element_count(values_[number].tensor)) return false;
    if (values_[number].buffer < 0) plain(number);
    has_blocks = has_blocks || values_[number].strides.empty();
    if (values_[number].scale != 1) return false;
  }
  if (!has_blocks) return false;
  for (const int number : node.inputs) descs.push_back(values_[number].desc);
  const int axis = static_cast<int>(a.list[L_AXES].item[0]);
  const dnnl::concat::primitive_desc made(engine(), axis, descs, own_scratchpad());
  Args args;
  for (size_t i = 0; i < node.inputs.size(); i++)
    args.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), values_[node.inputs[i]].buffer,
                      descs[i]);
  const int to = new_buffer(made.dst_desc().get_size());
  args.emplace_back(DNNL_ARG_DST, to, made.dst_desc());
  push_primitive(made, args);
  set_layout(node.outputs[0], y, to, made.dst_desc());
  return true;
}

// -- Elementwise --------------------------------------------------------------------------

namespace {

// Other functions of one value; they are not computed with the op before them.
bool function_of(const Node &node, algorithm &found) {
  static const std::map<std::string, algorithm> names = {{"sigmoid", algorithm::eltwise_logistic},
                                                         {"exp", algorithm::eltwise_exp},
                                                         {"sqrt", algorithm::eltwise_sqrt},
                                                         {"square", algorithm::eltwise_square},
                                                         {"abs", algorithm::eltwise_abs}};
  const auto named = names.find(node.type);
  if (named == names.end()) return false;
  found = named->second;
  return true;
}

// Where oneDNN 3.2 makes a number of NaN: exp in code by JIT, sigmoid in all other code.
bool loses_nan(algorithm how) {
  return how == algorithm::eltwise_exp || how == algorithm::eltwise_logistic;
}

}  // namespace

// A power with a small integer as a constant exponent.
bool Plan::plan_power(const Node &node) {
  const int input = node.inputs[0];
  const Value &exponent = values_[node.inputs[1]];
  const ref_tensor y = values_[input].tensor;
  if (!is_large_float(input) || !exponent.is_known || element_count(exponent.tensor) != 1 ||
      exponent.tensor.type != F32 || exponent.tensor.rank > y.rank)
    return false;
  const float power = *static_cast<const float *>(exponent.tensor.data);
  if (power != 2 && power != 3) return false;
  const int64_t count = element_count(y);
  const int from = plain(input), to = new_buffer(static_cast<size_t>(count) * sizeof(float));
  call("power", {from, to}, [this, from, to, power, count]() -> const char * {
    const float *p = static_cast<const float *>(buffers_[from].data);
    float *r = static_cast<float *>(buffers_[to].data);
#pragma omp parallel for simd
    for (int64_t i = 0; i < count; i++) r[i] = power == 2 ? p[i] * p[i] : p[i] * p[i] * p[i];
    return nullptr;
  });
  set_plain(node.outputs[0], y, to);
  return true;
}

// ReLU of all elements, whatever their layout is; NaN stays NaN.
void Plan::push_relu(int from, int to, size_t size) {
  const int64_t count = static_cast<int64_t>(size / sizeof(float));
  call("relu", {from, to}, [this, from, to, count]() -> const char * {
    const float *p = static_cast<const float *>(buffers_[from].data);
    float *r = static_cast<float *>(buffers_[to].data);
#pragma omp parallel for simd if (count >= PARALLEL_FROM)
    for (int64_t i = 0; i < count; i++) r[i] = p[i] < 0 ? 0 : p[i];
    return nullptr;
  });
}

// Copies the NaN of an op to its result, both in the same layout. Blocks without NaN are
// only read, which takes so little time that few elements are left to one thread.
void Plan::push_nan(int from, int to, size_t size) {
  constexpr int64_t BLOCK = 1 << 11;
  const int64_t count = static_cast<int64_t>(size / sizeof(float));
  call("nan", {from, to}, [this, from, to, count]() -> const char * {
    const float *p = static_cast<const float *>(buffers_[from].data);
    float *r = static_cast<float *>(buffers_[to].data);
#pragma omp parallel for if (count >= 16 * PARALLEL_FROM)
    for (int64_t first = 0; first < count; first += BLOCK) {
      const int64_t end = std::min(first + BLOCK, count);
      int has_nan = 0;
#pragma omp simd reduction(| : has_nan)
      for (int64_t i = first; i < end; i++) has_nan |= p[i] != p[i];
      for (int64_t i = first; has_nan && i < end; i++)
        if (p[i] != p[i]) r[i] = p[i];
    }
    return nullptr;
  });
}

bool Plan::plan_eltwise(const Node &node) {
  algorithm how{};
  float alpha = 0;
  const bool is_relu = node.own == Own::RELU;
  if (!is_relu && !activation_of(node, how, alpha) && !function_of(node, how)) return false;
  const int input = node.inputs[0];
  if (node.own == Own::NONE && !is_large_float(input)) return false;
  const ref_tensor y = values_[input].tensor;
  if (y.type != F32) throw Fault(node.where, "only float32 is supported");
  if (values_[input].buffer < 0 || values_[input].scale != 1) plain(input);
  if (!element_count(y)) {
    set_plain(node.outputs[0], y, new_buffer(0));
    return true;
  }
  const bool as_it_is = values_[input].scale == 1;
  const int from = as_it_is ? values_[input].buffer : plain(input);
  const Desc desc = as_it_is ? values_[input].desc : row_major(values_[input]);
  const int to = new_buffer(desc.get_size());
  if (is_relu) {
    push_relu(from, to, desc.get_size());
  } else {
    const dnnl::eltwise_forward::primitive_desc made(engine(), prop_kind::forward_inference, how,
                                                     desc, desc, alpha, 0.0f, own_scratchpad());
    push_primitive(made, {{DNNL_ARG_SRC, from, desc}, {DNNL_ARG_DST, to, desc}});
    if (loses_nan(how)) push_nan(from, to, desc.get_size());
  }
  if (y.rank == 0) set_plain(node.outputs[0], y, to);
  else set_layout(node.outputs[0], y, to, desc);
  return true;
}

bool Plan::plan_binary(const Node &node) {
  static const std::map<std::string, algorithm> names = {{"add", algorithm::binary_add},
                                                         {"subtract", algorithm::binary_sub},
                                                         {"multiply", algorithm::binary_mul},
                                                         {"divide", algorithm::binary_div}};
  ref_attributes a;
  std::vector<const ref_tensor *> x;
  const ref_tensor y = shape_of(node, 0, a, x);
  if (y.type != F32 || element_count(y) < model_.primitives_from) return false;
  int left = node.inputs[0], right = node.inputs[1];
  if (node.type != "subtract" && node.type != "divide" && !same_shape(values_[left].tensor, y))
    std::swap(left, right);
  if (!same_shape(values_[left].tensor, y)) return false;
  for (const int value : {left, right})
    if (values_[value].buffer < 0) plain(value);
  const auto operand = [&](int number) -> std::pair<int, Desc> {
    const Value &value = values_[number];
    if (value.tensor.rank == y.rank && value.scale == 1) return {value.buffer, value.desc};
    return {plain(number), row_major_desc(widened(dims_of(value.tensor), y.rank))};
  };
  std::pair<int, Desc> one = operand(left), two = operand(right);
  const auto make = [&] {
    return dnnl::binary::primitive_desc(engine(), names.at(node.type), one.second, two.second,
                                        one.second, own_scratchpad(), true);
  };
  dnnl::binary::primitive_desc made = make();
  if (!made || is_reference(made.impl_info_str())) {
    one = {plain(left), row_major_desc(dims_of(y))};
    two = {plain(right), row_major_desc(widened(dims_of(values_[right].tensor), y.rank))};
    made = make();
  }
  if (!made || is_reference(made.impl_info_str())) return false;
  const int to = new_buffer(one.second.get_size());
  push_primitive(made, {{DNNL_ARG_SRC_0, one.first, one.second},
                        {DNNL_ARG_SRC_1, two.first, two.second},
                        {DNNL_ARG_DST, to, one.second}});
  set_layout(node.outputs[0], y, to, one.second);
  return true;
}

// where(isnan(x), constant, x) in one pass.
bool Plan::plan_nan_to_constant(const Node &node) {
  const int input = node.inputs[0];
  if (!is_large_float(input) || !is_used_once(node.outputs[0])) return false;
  const int next = graph_.users[node.outputs[0]][0];
  const Node &user = graph_.nodes[next];
  if (user.type != "where" || user.inputs[0] != node.outputs[0] || user.inputs[2] != input ||
      user.inputs[1] < 0)
    return false;
  const Value &constant = values_[user.inputs[1]];
  const ref_tensor y = values_[input].tensor;
  if (!constant.is_known || constant.tensor.type != F32 || element_count(constant.tensor) != 1 ||
      constant.tensor.rank > y.rank)
    return false;
  const float other = *static_cast<const float *>(constant.tensor.data);
  const int64_t count = element_count(y);
  const int from = plain(input), to = new_buffer(static_cast<size_t>(count) * sizeof(float));
  call("nan to constant", {from, to}, [this, from, to, other, count]() -> const char * {
    const float *p = static_cast<const float *>(buffers_[from].data);
    float *r = static_cast<float *>(buffers_[to].data);
#pragma omp parallel for simd
    for (int64_t i = 0; i < count; i++) r[i] = p[i] != p[i] ? other : p[i];
    return nullptr;
  });
  set_plain(user.outputs[0], y, to);
  done_[next] = 1;
  return true;
}

// -- Along axes ---------------------------------------------------------------------------

namespace {

int axis_of(const Node &node, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw Fault(node.where, "an axis is out of range");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace

void Plan::plan_softmax(const Node &node) {
  const int input = node.inputs[0];
  const ref_tensor y = values_[input].tensor;
  if (y.type != F32) throw Fault(node.where, "only float32 is supported");
  const int axis = axis_of(node, node.axes[0], y.rank), from = plain(input);
  const int to = new_buffer(static_cast<size_t>(element_count(y)) * sizeof(float));
  set_plain(node.outputs[0], y, to);
  if (!element_count(y)) return;
  const Desc desc = row_major_desc(dims_of(y));
  const dnnl::softmax_forward::primitive_desc made(engine(), prop_kind::forward_inference,
                                                   algorithm::softmax_accurate, desc, desc, axis,
                                                   own_scratchpad());
  push_primitive(made, {{DNNL_ARG_SRC, from, desc}, {DNNL_ARG_DST, to, desc}});
}

void Plan::plan_layer_norm(const Node &node) {
  const int input = node.inputs[0];
  const ref_tensor y = values_[input].tensor;
  if (y.type != F32) throw Fault(node.where, "only float32 is supported");
  const int axis = axis_of(node, node.axes[0], y.rank), from = plain(input);
  int64_t inner = 1;
  for (int d = axis; d < y.rank; d++) inner *= y.shape[d];
  int affine[2] = {-1, -1};
  bool is_along_rows = true;  // whether scale and bias have an element for each of a row
  for (int i = 0; i < 2; i++) {
    const int number = static_cast<int>(node.inputs.size()) > i + 1 ? node.inputs[i + 1] : -1;
    if (number < 0) continue;
    const ref_tensor &t = values_[number].tensor;
    const int shift = y.rank - t.rank;
    bool fits = t.type == F32 && shift >= 0;
    for (int d = 0; fits && d < y.rank; d++) {
      const int64_t size = d < shift ? 1 : t.shape[d - shift];
      is_along_rows = is_along_rows && size == (d < axis ? 1 : y.shape[d]);
      fits = size == 1 || size == y.shape[d];
    }
    if (!fits) throw Fault(node.where, "a scale or bias of this shape is not supported");
    affine[i] = plain(number);
  }
  const int to = new_buffer(static_cast<size_t>(element_count(y)) * sizeof(float));
  set_plain(node.outputs[0], y, to);
  if (!element_count(y)) return;
  const Desc desc = row_major_desc({element_count(y) / inner, inner});
  const Desc vector = row_major_desc({inner});
  auto flags = dnnl::normalization_flags::none;
  Args args = {{DNNL_ARG_SRC, from, desc}, {DNNL_ARG_DST, to, desc}};
  if (affine[0] >= 0 && is_along_rows) {
    flags |= dnnl::normalization_flags::use_scale;
    args.emplace_back(DNNL_ARG_SCALE, affine[0], vector);
  }
  if (affine[1] >= 0 && is_along_rows) {
    flags |= dnnl::normalization_flags::use_shift;
    args.emplace_back(DNNL_ARG_SHIFT, affine[1], vector);
  }
  const dnnl::layer_normalization_forward::primitive_desc made(
      engine(), prop_kind::forward_inference, desc, desc, static_cast<float>(node.epsilon), flags,
      own_scratchpad());
  push_primitive(made, args);
  if (!is_along_rows) scale_and_shift(node, y, to, affine);
}

// Multiplies by a scale and adds a bias, both broadcast to the shape of the result.
void Plan::scale_and_shift(const Node &node, const ref_tensor &y, int to, const int *affine) {
  const Dims dims = dims_of(y);
  for (int i = 0; i < 2; i++) {
    const int from = affine[i];
    if (from < 0) continue;
    const ref_tensor &t = values_[node.inputs[i + 1]].tensor;
    const Dims own = dims_of(t), own_steps = strides_of(own);
    Dims steps(dims.size(), 0);
    for (size_t d = 0; d < own.size(); d++)
      if (own[d] != 1) steps[d + dims.size() - own.size()] = own_steps[d];
    const int64_t count = element_count(y);
    call("scale and shift", {from, to}, [this, from, to, i, count, dims, steps]() -> const char * {
      const float *p = static_cast<const float *>(buffers_[from].data);
      float *r = static_cast<float *>(buffers_[to].data);
#pragma omp parallel for
      for (int64_t k = 0; k < count; k++) {
        const float u = p[element_at(k, dims, steps)];
        r[k] = i == 0 ? r[k] * u : r[k] + u;
      }
      return nullptr;
    });
  }
}

void Plan::plan_mean(const Node &node) {
  const int input = node.inputs[0];
  const ref_tensor x = values_[input].tensor;
  if (x.type != F32) throw Fault(node.where, "only float32 is supported");
  std::vector<char> is_reduced(x.rank, !node.has_axes);
  for (const int64_t axis : node.axes) is_reduced[axis_of(node, axis, x.rank)] = 1;
  ref_tensor y = x;
  y.rank = 0;
  int64_t divisor = 1;
  Dims kept, kept_steps, gone, gone_steps;
  const Dims strides = strides_of(dims_of(x));
  for (int d = 0; d < x.rank; d++) {
    if (is_reduced[d]) divisor *= x.shape[d];
    (is_reduced[d] ? gone : kept).push_back(x.shape[d]);
    (is_reduced[d] ? gone_steps : kept_steps).push_back(strides[d]);
    if (!is_reduced[d] || node.keepdims) y.shape[y.rank++] = is_reduced[d] ? 1 : x.shape[d];
  }
  const Value &value = values_[input];
  const bool is_global = x.rank == 4 && !is_reduced[0] && !is_reduced[1] && is_reduced[2] && is_reduced[3];
  if (is_global && value.strides.empty() && value.scale == 1 && value.buffer >= 0) {
    const Desc source = value.desc;
    const dnnl::pooling_forward::primitive_desc made(
        engine(), prop_kind::forward_inference, algorithm::pooling_avg_exclude_padding, source,
        row_major_desc({x.shape[0], x.shape[1], 1, 1}), {1, 1}, {x.shape[2], x.shape[3]}, {0, 0},
        {0, 0}, {0, 0}, own_scratchpad(), true);
    if (made && !is_reference(made.impl_info_str())) {
      const int to = new_buffer(made.dst_desc().get_size());
      push_primitive(made, {{DNNL_ARG_SRC, value.buffer, source},
                            {DNNL_ARG_DST, to, made.dst_desc()}});
      set_plain(node.outputs[0], y, to);
      return;
    }
  }
  const int64_t count = element_count(y);
  const int from = plain(input), to = new_buffer(static_cast<size_t>(count) * sizeof(float));
  call("mean", {from, to}, [=, this_ = this]() -> const char * {
    const float *p = static_cast<const float *>(this_->buffers_[from].data);
    float *r = static_cast<float *>(this_->buffers_[to].data);
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) {
      const float *row = p + element_at(i, kept, kept_steps);
      double sum = 0;
      for (int64_t k = 0; k < divisor; k++) sum += static_cast<double>(row[element_at(k, gone, gone_steps)]);
      r[i] = static_cast<float>(sum / static_cast<double>(divisor));
    }
    return nullptr;
  });
  set_plain(node.outputs[0], y, to);
}

}  // namespace amanda
