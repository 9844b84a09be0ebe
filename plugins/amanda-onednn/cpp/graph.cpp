#include "graph.hpp"

#include <cstdlib>
#include <cstring>

namespace amanda {
namespace {

constexpr int MAX_DEPTH = 64;
constexpr int64_t MAX_PORTS = 1 << 20;

class Reader {
 public:
  Reader(const char *text, size_t length) : at_(text), end_(text + length) {}

  Json whole() {
    Json found = value(0);
    blanks();
    if (at_ != end_) throw Fault("", "the JSON goes on at its end");
    return found;
  }

 private:
  const char *at_, *end_;

  [[noreturn]] static void invalid() { throw Fault("", "the JSON is invalid"); }
  void blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n')) at_++;
  }
  char next() {
    blanks();
    if (at_ == end_) invalid();
    return *at_;
  }
  std::string quoted() {
    std::string found;
    if (next() != '"') invalid();
    for (at_++; at_ < end_ && *at_ != '"'; at_++) {
      if (*at_ == '\\' && ++at_ == end_) invalid();
      found += *at_;
    }
    if (at_ == end_) invalid();
    at_++;
    return found;
  }
  void items(Json &to, char close, int depth) {
    at_++;
    while (next() != close) {
      if (!to.items.empty()) {
        if (*at_++ != ',') invalid();
        blanks();
      }
      std::string key;
      if (to.kind == Json::MAP) {
        key = quoted();
        if (next() != ':') invalid();
        at_++;
      }
      to.items.emplace_back(std::move(key), value(depth + 1));
    }
    at_++;
  }
  Json value(int depth) {
    if (depth > MAX_DEPTH) invalid();
    Json found;
    const char first = next();
    found.begin = at_;
    if (first == '{' || first == '[') {
      found.kind = first == '{' ? Json::MAP : Json::LIST;
      items(found, first == '{' ? '}' : ']', depth);
    } else if (first == '"') {
      found.kind = Json::STRING;
      found.text = quoted();
    } else {
      while (at_ < end_ && *at_ && !std::strchr(" \t\r\n,]}:\"[{", *at_)) found.text += *at_++;
      if (found.text.empty()) invalid();
    }
    found.end = at_;
    return found;
  }
};

int read_type(const std::string &text) {
  static const char *const names[] = {"float32", "int32", "int64", "bool"};
  const std::string head = text.substr(0, text.find('['));
  for (int i = 0; i < TYPE_COUNT; i++)
    if (head == names[i]) return i;
  return head.empty() || head[0] == '?' ? UNKNOWN : OTHER;
}

// The number of ports: a number, or a list with something for each.
size_t port_count(const Json *ports) {
  if (!ports) return 0;
  if (ports->kind == Json::LIST) return ports->items.size();
  const int64_t n = ports->integer();
  if (n < 0 || n > MAX_PORTS) throw Fault("", "too many inputs or results");
  return static_cast<size_t>(n);
}

int port_type(const Json *ports, size_t i) {
  if (!ports || ports->kind != Json::LIST || i >= ports->items.size()) return UNKNOWN;
  const Json &port = ports->items[i].second;
  const Json *type = port.find("type");
  if (!type && port.kind == Json::MAP && port.items.size() == 1 &&
      port.items[0].first != "name" && port.items[0].first != "attrs")
    type = &port.items[0].second;
  return type && type->kind == Json::STRING ? read_type(type->text) : UNKNOWN;
}

Own own_of(const std::string &type) {
  static const std::map<std::string, Own> names = {
      {"relu", Own::RELU},       {"gelu", Own::GELU},
      {"silu", Own::SILU},       {"softmax", Own::SOFTMAX},
      {"layer_norm", Own::LAYER_NORM}, {"mean", Own::MEAN}};
  const auto found = names.find(type);
  return found == names.end() ? Own::NONE : found->second;
}

void read_constant(Node &node, const Json *attrs) {
  const Json *value = attrs ? attrs->find("value") : nullptr;
  const Json *tensor = value ? value->find("$tensor") : nullptr;
  const Json *weight = tensor ? tensor->find("weight") : nullptr;
  const Json *dtype = tensor ? tensor->find("dtype") : nullptr;
  if (!weight || !dtype) throw Fault(node.where, "a constant has no weight");
  node.weight = weight->integer();
  if (node.weight < 0) throw Fault(node.where, "a constant has no weight");
  if (read_type(dtype->text) >= TYPE_COUNT)
    throw Fault(node.where, "constants of " + dtype->text.substr(0, 40) + " are not supported");
}

void read_own_attribute(Node &node, const std::string &key, const Json &value) {
  const Own own = node.own;
  const bool has_axes = own == Own::SOFTMAX || own == Own::MEAN;
  if (key == "axes" && has_axes) {
    if (value.is_null()) return;
    node.axes = value.integers();
    node.has_axes = true;
  } else if (key == "axis" && own == Own::LAYER_NORM) {
    node.axes = {value.integer()};
  } else if (key == "epsilon" && own == Own::LAYER_NORM) {
    node.epsilon = value.number();
  } else if (key == "keepdims" && own == Own::MEAN) {
    node.keepdims = value.integer() != 0;
  } else if (key == "approximate" && own == Own::GELU) {
    node.approximate = value.integer() != 0;
  } else {
    throw Fault(node.where, "the attribute " + key.substr(0, 40) + " is unknown");
  }
}

void read_own(Node &node, const Json *attrs) {
  if (attrs)
    for (const auto &[key, value] : attrs->items) read_own_attribute(node, key, value);
  if ((node.own == Own::SOFTMAX || node.own == Own::LAYER_NORM) && node.axes.empty())
    node.axes = {-1};
  if (node.own == Own::SOFTMAX && node.axes.size() != 1)
    throw Fault(node.where, "one axis is supported");
  const size_t most = node.own == Own::LAYER_NORM ? 3 : 1;
  if (node.inputs.empty() || node.inputs.size() > most)
    throw Fault(node.where, "inputs of this number are not supported");
}

void read_node(Node &node, const Json &source) {
  const Json *type = source.find("type"), *attrs = source.find("attrs");
  if (!type || type->kind != Json::STRING) throw Fault(node.where, "an op has no type");
  node.type = type->text;
  if (node.type == "constant") {
    read_constant(node, attrs);
    if (!node.inputs.empty() || node.outputs.size() != 1)
      throw Fault(node.where, "a constant has one result");
    return;
  }
  node.where += ", " + node.type.substr(0, 40);
  if (attrs && attrs->kind != Json::MAP) throw Fault(node.where, "attrs is no map");
  if (source.find("bodies")) throw Fault(node.where, "it has bodies");
  node.own = own_of(node.type);
  if (node.outputs.size() != 1 && node.type != "split")
    throw Fault(node.where, "results of this number are not supported");
  if (node.own != Own::NONE) return read_own(node, attrs);
  node.reference = ref_find(node.type.data(), node.type.size());
  if (node.reference < 0) throw Fault(node.where, "there is no kernel for this op");
  const char *fault = ref_attributes_read(
      node.reference, attrs ? attrs->begin : "",
      attrs ? static_cast<size_t>(attrs->end - attrs->begin) : 0,
      static_cast<int>(node.outputs.size()), &node.attrs);
  if (fault) throw Fault(node.where, fault);
}

struct End {
  int64_t op = -1, port = 0;  // op -1: the graph
};

End read_end(const std::string &text) {
  End found;
  const size_t dot = text.find('.');
  const auto is_number = [](const std::string &t) {
    return !t.empty() && t.size() < 10 && t.find_first_not_of("0123456789") == std::string::npos;
  };
  const std::string op = text.substr(0, dot);
  if (dot == std::string::npos || !is_number(text.substr(dot + 1)) ||
      (op != "graph" && !is_number(op)))
    throw Fault("", "an edge is not understood: " + text.substr(0, 80));
  if (op != "graph") found.op = std::atoll(op.c_str());
  found.port = std::atoll(text.c_str() + dot + 1);
  return found;
}

void read_edge(Graph &g, const std::string &text) {
  const size_t arrow = text.find(" -> ");
  if (arrow == std::string::npos) throw Fault("", "an edge is not understood: " + text.substr(0, 80));
  const End from = read_end(text.substr(0, arrow)), to = read_end(text.substr(arrow + 4));
  const int64_t count = static_cast<int64_t>(g.nodes.size());
  if (from.op >= count || to.op >= count || (to.op >= 0 && from.op >= to.op))
    throw Fault("", "ops are not in the order of their edges");
  const auto &sources = from.op < 0 ? g.parameters : g.nodes[from.op].outputs;
  auto &targets = to.op < 0 ? g.results : g.nodes[to.op].inputs;
  if (from.port >= static_cast<int64_t>(sources.size()) ||
      to.port >= static_cast<int64_t>(targets.size()) || targets[to.port] >= 0)
    throw Fault("", "an edge begins at no value, or ends at no free port: " + text.substr(0, 80));
  const int value = sources[from.port];
  targets[to.port] = value;
  if (to.op >= 0) g.users[value].push_back(static_cast<int>(to.op));
}

// Whether the inputs that an op of its own needs are there, and of float32.
void check_own(const Graph &g, const Node &node) {
  for (size_t i = 0; i < node.inputs.size(); i++) {
    const int value = node.inputs[i];
    if (value < 0 && i == 0) throw Fault(node.where, "input 0 is missing");
    if (value >= 0 && g.types[value] != F32 && g.types[value] != UNKNOWN)
      throw Fault(node.where, "only float32 is supported");
  }
}

int add_value(Graph &g, int type, int maker) {
  g.types.push_back(type);
  g.makers.push_back(maker);
  g.users.emplace_back();
  return static_cast<int>(g.types.size()) - 1;
}

void read_ops(Graph &g, const Json &body) {
  const Json *ops = body.find("ops");
  if (!ops || (ops->kind == Json::MAP && ops->items.empty())) return;
  if (ops->kind != Json::LIST) throw Fault("", "the ops are not in a list");
  for (const auto &[key, source] : ops->items) {
    Node node;
    const int number = static_cast<int>(g.nodes.size());
    node.where = "op " + std::to_string(number);
    node.inputs.assign(port_count(source.find("input_ports")), -1);
    const Json *outputs = source.find("output_ports");
    for (size_t i = 0; i < port_count(outputs); i++)
      node.outputs.push_back(add_value(g, port_type(outputs, i), number));
    read_node(node, source);
    g.nodes.push_back(std::move(node));
  }
}

}  // namespace

Json Json::read(const char *text, size_t length) { return Reader(text, length).whole(); }

const Json *Json::find(const std::string &key) const {
  if (kind != MAP) return nullptr;
  for (const auto &item : items)
    if (item.first == key) return &item.second;
  return nullptr;
}

double Json::number() const {
  char *end = nullptr;
  const double found = std::strtod(text.c_str(), &end);
  if (kind != WORD || *end || text.empty()) throw Fault("", "a number is needed: " + text.substr(0, 40));
  return found;
}

int64_t Json::integer() const {
  if (kind == WORD && (text == "true" || text == "false")) return text == "true";
  char *end = nullptr;
  const int64_t found = std::strtoll(text.c_str(), &end, 10);
  if (kind != WORD || *end || text.empty())
    throw Fault("", "an integer is needed: " + text.substr(0, 40));
  return found;
}

std::vector<int64_t> Json::integers() const {
  if (kind != LIST) return {integer()};
  std::vector<int64_t> found;
  for (const auto &item : items) found.push_back(item.second.integer());
  return found;
}

Graph Graph::read(const char *text, size_t length) {
  const Json whole = Json::read(text, length);
  const Json *body = whole.find("graph");
  if (!body || body->kind != Json::MAP) throw Fault("", "the JSON has no graph");
  Graph g;
  const Json *ports = body->find("input_ports");
  for (size_t i = 0; i < port_count(ports); i++)
    g.parameters.push_back(add_value(g, port_type(ports, i), -1));
  g.results.assign(port_count(body->find("output_ports")), -1);
  read_ops(g, *body);
  if (const Json *edges = body->find("edges"))
    for (const auto &[key, edge] : edges->items) read_edge(g, edge.text);
  for (const int value : g.results)
    if (value < 0) throw Fault("", "a result has no value");
  for (const Node &node : g.nodes) {
    if (node.own != Own::NONE) check_own(g, node);
    if (node.reference < 0) continue;
    const char *fault = ref_check_inputs(node.reference, node.inputs.data(),
                                         static_cast<int>(node.inputs.size()));
    if (fault) throw Fault(node.where, fault);
  }
  return g;
}

}  // namespace amanda
