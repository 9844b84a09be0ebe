// Convolutions and products with packed weights, in tasks that any thread may take.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dnnl.hpp"

namespace amanda {

// A channels-last convolution, or a product where there are no spatial axes: then `batch`
// is the number of rows.
struct Layer {
  int64_t batch = 0, groups = 1, inputs = 0, outputs = 0;
  int64_t panel = 0;  // outputs whose weights are packed together
  std::vector<int64_t> sizes, kernel, strides, dilations, low, high;  // by spatial axis

  // Of numbers in this order, those of each spatial axis together; throws
  // std::invalid_argument.
  static Layer parse(const int64_t *numbers, size_t count);

  size_t rank() const { return sizes.size(); }
  int64_t result_size(size_t axis) const;
  int64_t positions() const;  // of a result, in all elements of the batch
  int64_t panel_count() const { return (outputs + panel - 1) / panel; }
  int64_t panel_outputs(int64_t number) const;
};

// How a layer is divided into tasks, and its weights packed.
struct Division {
  int64_t format = 0;  // the number of a memory format of oneDNN
  int64_t rows = 0;    // of results, along the first spatial axis, that a task computes
  int64_t panel = 0;   // outputs whose weights are packed together
  int64_t size = 0;    // of the packed weights, in floats
};

// The division for which oneDNN has fast kernels; a size of 0 where there is none. A format
// or panel of 0 is chosen; others are those of weights that are packed already.
Division divide(const Layer &layer, int64_t format);
// Packs weights: outputs, inputs of a group, kernel, with these strides in floats. Those of
// a product have any; those of a convolution are in row-major order.
void pack(const Layer &layer, int64_t format, const float *weights, const int64_t *strides,
          float *packed);

struct Arrays {
  const float *x, *weights, *bias, *addend;  // bias and addend may be null
  float *y;
};

// A layer for arrays of given sizes, as tasks that are independent of each other.
class LayerPlan {
 public:
  LayerPlan(const Layer &layer, const Division &division, bool has_bias, bool has_relu);
  ~LayerPlan();
  size_t task_count() const;
  void run(size_t task, const Arrays &arrays) const;
  int64_t weights_size() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace amanda
