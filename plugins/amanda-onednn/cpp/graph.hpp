// The graph as it is read from JSON.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference.h"

namespace amanda {

// What is wrong, and the op where it is.
struct Fault : std::runtime_error {
  std::string where;
  Fault(std::string place, const std::string &what)
      : std::runtime_error(what), where(std::move(place)) {}
};

// A value of JSON; numbers, true, false and null are kept as text.
struct Json {
  enum Kind { MAP, LIST, STRING, WORD } kind = WORD;
  std::string text;
  const char *begin = nullptr, *end = nullptr;  // where it is in the whole text
  std::vector<std::pair<std::string, Json>> items;  // of lists, without keys

  static Json read(const char *text, size_t length);
  const Json *find(const std::string &key) const;
  double number() const;
  int64_t integer() const;
  std::vector<int64_t> integers() const;  // one integer is a list of one
  bool is_null() const { return kind == WORD && text == "null"; }
};

// Ops that are not in the reference backend.
enum class Own { NONE, RELU, GELU, SILU, SOFTMAX, LAYER_NORM, MEAN };

struct Node {
  std::string type, where;
  int reference = -1;  // the number of the op in the reference backend
  Own own = Own::NONE;
  int64_t weight = -1;  // of a constant
  std::vector<int> inputs, outputs;  // numbers of values; -1: omitted
  ref_attributes attrs{};
  std::vector<int64_t> axes;  // of an op of its own
  bool keepdims = false, has_axes = false, approximate = false;
  double epsilon = 1e-5;
  bool is_constant() const { return weight >= 0; }
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<int> types, results, makers, parameters;
  std::vector<std::vector<int>> users;  // ops that read each value, once for each input
  size_t value_count() const { return types.size(); }

  static Graph read(const char *text, size_t length);
};

}  // namespace amanda
