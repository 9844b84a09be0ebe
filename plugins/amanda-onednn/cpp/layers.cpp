#include "layers.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <unordered_map>

#include "own_thread.hpp"

namespace amanda {
namespace {

using dnnl::memory;
using dnnl::prop_kind;
using Dims = memory::dims;
using Desc = memory::desc;
using Tag = memory::format_tag;

constexpr auto F32 = memory::data_type::f32;
// Floats of a result that a task computes: they stay in the cache of a core.
constexpr int64_t TASK_RESULTS = 1 << 15;
// Rows of a product that a task computes.
constexpr int64_t PRODUCT_ROWS = 64;
// Multiplications that a task has at least, and those that are enough where there would be
// fewer tasks than cores.
constexpr int64_t TASK_PRODUCTS = 1 << 25, FEW_PRODUCTS = 1 << 20;
constexpr int64_t MAX_NUMBER = int64_t{1} << 31;
constexpr double MAX_WORK = 1e18;  // the product of all sizes: 64 bits hold any of them

const dnnl::engine &engine() {
  static const dnnl::engine found(dnnl::engine::kind::cpu, 0);
  return found;
}

// The cores that this process may use.
int64_t core_count() { return std::max(1u, std::thread::hardware_concurrency()); }

// A part of a layer: some rows of one element of the batch, and the outputs of a panel.
struct Part {
  int64_t batch, rows, low, high;  // of the first spatial axis; padding before and after
  int64_t outputs;
  bool operator<(const Part &other) const {
    return std::tie(batch, rows, low, high, outputs) <
           std::tie(other.batch, other.rows, other.low, other.high, other.outputs);
  }
};

Tag channels_last(size_t rank) {
  return rank == 0 ? Tag::nc : rank == 1 ? Tag::nwc : rank == 2 ? Tag::nhwc : Tag::ndhwc;
}

Dims weight_dims(const Layer &layer, int64_t outputs) {
  Dims dims = {outputs, layer.inputs / layer.groups};
  if (layer.groups > 1) {
    dims[0] /= layer.groups;
    dims.insert(dims.begin(), layer.groups);
  }
  dims.insert(dims.end(), layer.kernel.begin(), layer.kernel.end());
  return dims;
}

Tag row_major(size_t rank) {
  constexpr Tag tags[] = {Tag::a, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
  return tags[rank];
}

Desc weight_desc(const Layer &layer, int64_t outputs, int64_t format) {
  return Desc(weight_dims(layer, outputs), F32, static_cast<Tag>(format));
}

// A primitive for a part, whose weights have a format, or any.
struct Primitive {
  Desc x, weights, bias, y, scratchpad;
  std::string implementation;
  dnnl::primitive run;
};

template <typename Descriptor>
Primitive primitive_of(const Descriptor &found) {
  return {found.src_desc(), found.weights_desc(), found.bias_desc(), found.dst_desc(),
          found.scratchpad_desc(), found.impl_info_str(), dnnl::primitive(found)};
}

Primitive primitive_for(const Layer &layer, const Part &part, int64_t format, bool has_bias) {
  const size_t rank = layer.rank();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Dims x = {part.batch, layer.inputs}, y = {part.batch, part.outputs};
  Dims low = layer.low, high = layer.high, dilations = layer.dilations;
  for (size_t d = 0; d < rank; d++) {
    x.push_back(d == 0 ? part.rows : layer.sizes[d]);
    if (d == 0) low[0] = part.low, high[0] = part.high;
    const int64_t reach = layer.dilations[d] * (layer.kernel[d] - 1) + 1;
    y.push_back((x.back() + low[d] + high[d] - reach) / layer.strides[d] + 1);
    dilations[d]--;
  }
  const Desc from(x, F32, channels_last(rank)), to(y, F32, channels_last(rank));
  const Desc weights = weight_desc(layer, part.outputs, format);
  const Desc bias = has_bias ? Desc({part.outputs}, F32, Tag::a) : Desc();
  if (rank == 0)
    return primitive_of(dnnl::inner_product_forward::primitive_desc(
        engine(), prop_kind::forward_inference, from, weights, bias, to, attributes));
  return primitive_of(dnnl::convolution_forward::primitive_desc(
      engine(), prop_kind::forward_inference, dnnl::algorithm::convolution_direct, from,
      weights, bias, to, layer.strides, dilations, low, high, attributes));
}

bool is_fast(const std::string &implementation) {
  return implementation.compare(0, 3, "ref") != 0;
}

int64_t weights_size(const Layer &layer, int64_t format) {
  const auto size_of = [&](int64_t outputs) {
    return static_cast<int64_t>(weight_desc(layer, outputs, format).get_size() / sizeof(float));
  };
  const int64_t rest = layer.outputs % layer.panel;
  return layer.outputs / layer.panel * size_of(layer.panel) + (rest ? size_of(rest) : 0);
}

dnnl::stream &stream() {
  thread_local dnnl::stream found(engine());
  return found;
}

// Copies rows of results to where they belong, with a sum and ReLU; NaN stays NaN.
template <bool HAS_ADDEND, bool HAS_RELU>
void finish(float *y, int64_t y_step, const float *from, int64_t from_step,
            const float *addend, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++, y += y_step, from += from_step, addend += y_step)
    for (int64_t j = 0; j < columns; j++) {
      const float value = HAS_ADDEND ? from[j] + addend[j] : from[j];
      y[j] = HAS_RELU && value < 0 ? 0 : value;
    }
}

}  // namespace

// -- Layer --------------------------------------------------------------------------------

namespace {

// Outputs of a panel: those of a convolution whose results have few rows, and of a product,
// are computed by tasks of their own.
constexpr int64_t PANEL = 128, FEW_ROWS = 8;
// The gemm of oneDNN packs the rows of the data for each panel, and computes 48 outputs at
// once with AVX-512, 24 with AVX2.
constexpr int64_t GEMM_PANEL = 384, GEMM_OUTPUTS = 48;

int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

int64_t panel_of(const Layer &layer) {
  if (layer.rank() == 0) {
    const int64_t panels = divide_up(core_count(), divide_up(layer.batch, PRODUCT_ROWS));
    const int64_t even = divide_up(divide_up(layer.outputs, panels), GEMM_OUTPUTS) * GEMM_OUTPUTS;
    return std::min({layer.outputs, GEMM_PANEL, even});
  }
  const bool is_divided = layer.groups == 1 && layer.result_size(0) <= FEW_ROWS;
  return is_divided ? std::min(layer.outputs, PANEL) : layer.outputs;
}

}  // namespace

Layer Layer::parse(const int64_t *numbers, size_t count) {
  const auto invalid = [] { return std::invalid_argument("a layer that cannot be read"); };
  if (count < 5 || (count - 5) % 6 || (count - 5) / 6 > 3) throw invalid();
  for (size_t i = 0; i < count; i++)
    if (numbers[i] < (i < 4 || (i > 4 && (i - 5) % 6 < 4)) || numbers[i] > MAX_NUMBER) throw invalid();
  Layer layer;
  layer.batch = numbers[0], layer.groups = numbers[1], layer.inputs = numbers[2];
  layer.outputs = numbers[3], layer.panel = numbers[4];
  for (size_t i = 5; i < count; i += 6) {
    layer.sizes.push_back(numbers[i]);
    layer.kernel.push_back(numbers[i + 1]);
    layer.strides.push_back(numbers[i + 2]);
    layer.dilations.push_back(numbers[i + 3]);
    layer.low.push_back(numbers[i + 4]);
    layer.high.push_back(numbers[i + 5]);
  }
  double work = 1;
  for (size_t i = 0; i < count; i++)
    if (i < 4 || (i > 4 && (i - 5) % 6 < 2)) work *= static_cast<double>(numbers[i]);
  if (work > MAX_WORK) throw invalid();
  const bool is_grouped = layer.groups > 1;
  if (layer.inputs % layer.groups || layer.outputs % layer.groups) throw invalid();
  if (!layer.panel) layer.panel = panel_of(layer);
  if (layer.panel > layer.outputs || (is_grouped && layer.panel != layer.outputs))
    throw invalid();
  for (size_t d = 0; d < layer.rank(); d++) {
    const int64_t reach = layer.dilations[d] * (layer.kernel[d] - 1) + 1;
    if (layer.result_size(d) < 1 || std::max(layer.low[d], layer.high[d]) >= reach)
      throw invalid();  // a result of padding alone is no part of the data
  }
  return layer;
}

int64_t Layer::result_size(size_t d) const {
  const int64_t space = sizes[d] + low[d] + high[d] - dilations[d] * (kernel[d] - 1) - 1;
  return space < 0 ? 0 : space / strides[d] + 1;
}

int64_t Layer::positions() const {
  int64_t count = batch;
  for (size_t d = 0; d < rank(); d++) count *= result_size(d);
  return count;
}

int64_t Layer::panel_outputs(int64_t number) const {
  return std::min(panel, outputs - number * panel);
}

// -- Division -----------------------------------------------------------------------------

namespace {

// A part of a layer and where it is in the arrays, in floats.
struct PlacedPart {
  Part part;
  int64_t x, y, positions;
};

int64_t rows_of(const Layer &layer) { return layer.rank() ? layer.result_size(0) : layer.batch; }

// The size of one row of the data and of the result along the first spatial axis.
int64_t row_size(const Layer &layer, bool is_result) {
  int64_t size = 1;
  for (size_t d = 1; d < layer.rank(); d++)
    size *= is_result ? layer.result_size(d) : layer.sizes[d];
  return size;
}

// The parts with the outputs of a panel, of `step` rows of results or fewer.
std::vector<PlacedPart> parts_of(const Layer &layer, int64_t panel, int64_t step) {
  const bool is_product = layer.rank() == 0;
  const int64_t rows = rows_of(layer), x_row = row_size(layer, false) * layer.inputs;
  const int64_t y_row = row_size(layer, true);
  std::vector<PlacedPart> found;
  for (int64_t n = 0; n < (is_product ? 1 : layer.batch); n++)
    for (int64_t first = 0; first < rows; first += step) {
      const int64_t last = std::min(first + step, rows);
      Part part{1, 1, 0, 0, layer.panel_outputs(panel)};
      int64_t from = first;
      if (is_product) {
        part.batch = last - first;
      } else {
        const int64_t reach = layer.dilations[0] * (layer.kernel[0] - 1) + 1;
        const int64_t begins = first * layer.strides[0] - layer.low[0];
        const int64_t ends = (last - 1) * layer.strides[0] - layer.low[0] + reach;
        from = std::max<int64_t>(begins, 0);
        const int64_t to = std::min(ends, layer.sizes[0]);
        part.low = from - begins, part.high = ends - to, part.rows = to - from;
        from += n * layer.sizes[0];
      }
      const int64_t y = (n * rows + first) * y_row * layer.outputs + panel * layer.panel;
      found.push_back({part, from * x_row, y, (last - first) * y_row});
    }
  return found;
}

// The number of the format of a layout; 0 if it has none.
int64_t format_of(const Desc &desc, const Dims &dims) {
  for (int64_t format = dnnl_format_tag_any + 1; format < dnnl_format_tag_last; format++) {
    const Desc other(dims, F32, static_cast<Tag>(format), /*allow_empty=*/true);
    if (!other.get(/*allow_empty=*/true) || other != desc) continue;
    // Formats that differ in axes of size one alone are equal, but not to primitives.
    if (other.get_strides() == desc.get_strides()) return format;
  }
  return 0;
}

// The format of which oneDNN has fast kernels for all parts with so many rows; 0 if none.
int64_t format_for(const Layer &layer, int64_t rows, int64_t format) {
  Layer one = layer;  // of which parts that are alike have few
  if (layer.rank()) one.batch = 1;
  else if (layer.batch > rows) one.batch = rows + layer.batch % rows;
  std::set<Part> parts;
  for (const int64_t panel : {int64_t{0}, layer.panel_count() - 1})
    for (const PlacedPart &each : parts_of(one, panel, rows)) parts.insert(each.part);
  if (!format && !layer.rank()) format = dnnl_ba;  // gemm reads panels as they are
  if (!format) {
    const Part part = parts_of(one, 0, rows)[0].part;
    const Primitive found = primitive_for(layer, part, dnnl_format_tag_any, true);
    if (is_fast(found.implementation))
      format = format_of(found.weights, weight_dims(layer, part.outputs));
  }
  const auto is_good = [&](const Part &part) {
    return part.rows > 0 && is_fast(primitive_for(layer, part, format, true).implementation);
  };
  return format && std::all_of(parts.begin(), parts.end(), is_good) ? format : 0;
}

}  // namespace

Division divide(const Layer &layer, int64_t format) {
  const OneThread one;
  const int64_t rows = rows_of(layer);
  int64_t window = layer.inputs / layer.groups;
  for (const int64_t size : layer.kernel) window *= size;
  const int64_t results = row_size(layer, true) * layer.panel;
  const int64_t most =
      layer.rank() ? std::max<int64_t>(1, TASK_RESULTS / results) : PRODUCT_ROWS;
  const int64_t products = results * window * rows * layer.panel_count() / core_count();
  const int64_t wanted = std::clamp(products, FEW_PRODUCTS, TASK_PRODUCTS);
  const int64_t least = layer.rank() ? std::max<int64_t>(1, wanted / (results * window)) : 1;
  for (int64_t step = std::min(rows, std::max(most, least));; step = std::min(rows, 2 * step)) {
    int64_t count = divide_up(rows, step);
    if (count > 1) count += count % 2;  // an even number, for two cores
    const int64_t each = divide_up(rows, count);
    if (const int64_t found = format_for(layer, each, format))
      return {found, each, layer.panel, weights_size(layer, found)};
    if (step == rows) return {};
  }
}

// -- Packed weights -----------------------------------------------------------------------

namespace {

// Copies a matrix in blocks, whatever its strides are, to rows of `columns` elements.
void copy_matrix(const float *from, int64_t row_step, int64_t column_step, int64_t rows,
                 int64_t columns, float *to) {
  constexpr int64_t BLOCK = 32;
  for (int64_t i0 = 0; i0 < rows; i0 += BLOCK)
    for (int64_t j0 = 0; j0 < columns; j0 += BLOCK)
      for (int64_t i = i0; i < std::min(i0 + BLOCK, rows); i++)
        for (int64_t j = j0; j < std::min(j0 + BLOCK, columns); j++)
          to[i * columns + j] = from[i * row_step + j * column_step];
}

}  // namespace

void pack(const Layer &layer, int64_t format, const float *weights, const int64_t *strides,
          float *packed) {
  const OneThread one;
  for (int64_t p = 0; p < layer.panel_count(); p++) {
    const int64_t outputs = layer.panel_outputs(p);
    const Dims dims = weight_dims(layer, outputs);
    const Desc to(dims, F32, static_cast<Tag>(format));
    const float *from = weights + p * layer.panel * strides[0];
    if (layer.rank() == 0 && format == dnnl_ba) {
      copy_matrix(from, strides[1], strides[0], layer.inputs, outputs, packed);
    } else {
      const Desc plain(dims, F32, row_major(dims.size()));
      memory source(plain, engine(), const_cast<float *>(from)), target(to, engine(), packed);
      dnnl::reorder(source, target).execute(stream(), source, target);
      stream().wait();
    }
    packed += to.get_size() / sizeof(float);
  }
}

// -- Plans --------------------------------------------------------------------------------

struct LayerPlan::Parts {
  struct Task {
    const Primitive *primitive;
    PlacedPart place;
    int64_t weights, bias;  // where those of the panel begin, in floats
  };
  int64_t outputs;
  bool has_bias, has_relu;
  int64_t weights_size;
  std::map<Part, Primitive> primitives;
  std::vector<Task> tasks;
};

LayerPlan::LayerPlan(const Layer &layer, const Division &division, bool has_bias, bool has_relu)
    : parts_(new Parts{layer.outputs, has_bias, has_relu, 0, {}, {}}) {
  const OneThread one;
  for (int64_t p = 0; p < layer.panel_count(); p++) {
    for (const PlacedPart &place : parts_of(layer, p, division.rows)) {
      auto found = parts_->primitives.find(place.part);
      if (found == parts_->primitives.end()) {
        const auto primitive = primitive_for(layer, place.part, division.format, has_bias);
        found = parts_->primitives.emplace(place.part, primitive).first;
      }
      parts_->tasks.push_back(
          {&found->second, place, parts_->weights_size, p * layer.panel});
    }
    const Desc weights = weight_desc(layer, layer.panel_outputs(p), division.format);
    parts_->weights_size += weights.get_size() / sizeof(float);
  }
}

LayerPlan::~LayerPlan() = default;
size_t LayerPlan::task_count() const { return parts_->tasks.size(); }
int64_t LayerPlan::weights_size() const { return parts_->weights_size; }

void LayerPlan::run(size_t number, const Arrays &arrays) const {
  const OneThread one;
  const Parts::Task &task = parts_->tasks[number];
  const Primitive &primitive = *task.primitive;
  const auto &[part, x, y_offset, positions] = task.place;
  const bool is_whole = part.outputs == parts_->outputs;
  thread_local std::vector<float> scratchpad, results;
  float *y = arrays.y + y_offset, *to = y;
  if (!is_whole) {
    results.resize(std::max<size_t>(results.size(), positions * part.outputs));
    to = results.data();
  }
  scratchpad.resize(
      std::max(scratchpad.size(), primitive.scratchpad.get_size() / sizeof(float) + 1));
  const auto at = [](const Desc &desc, const float *data) {
    return memory(desc, engine(), const_cast<float *>(data));
  };
  std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, at(primitive.x, arrays.x + x)},
      {DNNL_ARG_WEIGHTS, at(primitive.weights, arrays.weights + task.weights)},
      {DNNL_ARG_DST, at(primitive.y, to)},
      {DNNL_ARG_SCRATCHPAD, at(primitive.scratchpad, scratchpad.data())}};
  if (parts_->has_bias)
    args.emplace(DNNL_ARG_BIAS, at(primitive.bias, arrays.bias + task.bias));
  primitive.run.execute(stream(), args);
  stream().wait();
  const float *addend = arrays.addend ? arrays.addend + y_offset : nullptr;
  const auto go = [&](auto function) {
    function(y, parts_->outputs, to, part.outputs, addend ? addend : y, positions, part.outputs);
  };
  if (addend) parts_->has_relu ? go(finish<true, true>) : go(finish<true, false>);
  else if (parts_->has_relu) go(finish<false, true>);
  else if (!is_whole) go(finish<false, false>);
}

}  // namespace amanda
