# fmt: off
# Types and double blank lines are omitted, for brevity.
"""A readable twin of Amanda: the whole system in one small file that works.

    text --format--> Graph[tiny] --rules--> Graph[std] --lowering--> backend --> arrays
                                                +--gradients--> Graph[std]

Each section names the package with the real implementation. Omitted: ops with several
outputs, nested graphs, symbolic shapes, versions, in-place changes, plug-ins by name.
"""

import numpy as np


# ---- 1. The graph (amanda.graph): ops in topological order, checked as they are added
class Op:
    """One computation. Here an op has one output, so that an op is also its value."""

    def __init__(self, graph, type, inputs, attrs, name, shape):
        self.graph, self.type, self.inputs = graph, type, list(inputs)
        self.attrs, self.name, self.shape = dict(attrs), name, shape
    def __repr__(self):
        attrs = [f"{key}={value}" for key, value in self.attrs.items()]
        arguments = ", ".join([*(value.name for value in self.inputs), *attrs])
        return f"{self.name} = {self.type}({arguments})"

class Graph:
    """Ops of one namespace."""
    count = 0  # of ops in all graphs, for names

    def __init__(self, namespace):
        self.namespace, self.ops, self.results = namespace, {}, []
    def __iter__(self):
        return iter(list(self.ops.values()))
    def add(self, type, inputs=(), attrs=(), name=None, shape=None):
        """Append an op. A mistake raises here, and leaves the graph unchanged."""
        Graph.count, name = Graph.count + 1, name or f"{type}_{Graph.count}"
        if name in self.ops or any(value.graph is not self for value in inputs):
            raise ValueError(f"{name}: exists already, or has inputs of another graph")
        self.ops[name] = Op(self, type, inputs, attrs, name, shape)
        return self.ops[name]
    def parameter(self, name, shape):
        return self.add("parameter", name=name, shape=Shape(shape))
    def constant(self, array, name=None):
        value = np.asarray(array, float)
        return self.add("constant", (), {"value": value}, name, Shape(value.shape))

SOURCES = ("parameter", "constant")  # ops of the core, the same in every namespace
def rebuild(graph, namespace, emit):
    """A new graph: `emit(new, op, memo)` returns the value that replaces `op`.

    `memo` maps ops of the old graph to values of the new one."""
    new, memo = Graph(namespace), {}
    for op in graph:
        source = op.type in SOURCES and (op.type, (), op.attrs, op.name, op.shape)
        memo[op] = new.add(*source) if source else emit(new, op, memo)
    new.results = [memo[op] for op in graph.results]
    return new

# ---- 2. The hub op set (amanda_std): one definition of an op, several interpretations
STD = {}  # the dictionary of the namespace `std`: every definition by name

class Shape(tuple):
    __slots__ = ()

class Definition:
    """An op. Called on arrays it computes, on shapes it infers, on ops it traces.

    A primitive has a kernel, a shape rule and a gradient. A composite is a function of
    other ops, from which its shapes and gradient follow."""

    def __init__(self, name, function, shape=None, gradient=None):
        self.name, self.function, self.shape = name, function, shape
        self.gradient, self.is_primitive = gradient, shape is not None
        STD[name] = self
    def __call__(self, *args, **attrs):
        if graphs := [arg.graph for arg in args if isinstance(arg, Op)]:
            return self.trace(graphs[0], args, attrs)
        shapes = any(isinstance(arg, Shape) for arg in args)
        return (self.infer if shapes else self.function)(*args, **attrs)
    def infer(self, *args, **attrs):
        shapes = [a if isinstance(a, Shape) else Shape(np.shape(a)) for a in args]
        return Shape((self.shape or self.function)(*shapes, **attrs))
    def trace(self, graph, args, attrs, name=None):
        values = [a if isinstance(a, Op) else graph.constant(a) for a in args]
        shape = self.infer(*(value.shape for value in values), **attrs)
        return graph.add(self.name, values, attrs, name, shape)

def reduced_shape(shape, axes):
    return [1 if axis in axes else size for axis, size in enumerate(shape)]

# name, kernel, shape rule, gradient: of the result, the result, inputs -> of the inputs
broadcast = np.broadcast_shapes
add = Definition("add", np.add, broadcast, lambda g, y, a, b: [g, g])
multiply = Definition("multiply", np.multiply, broadcast,
    lambda g, y, a, b: [multiply(g, b), multiply(g, a)])
divide = Definition("divide", np.divide, broadcast,
    lambda g, y, a, b: [divide(g, b), multiply(multiply(g, divide(y, b)), -1.0)])
maximum = Definition("maximum", np.maximum, broadcast,
    lambda g, y, a, b: [multiply(g, greater(a, b)), multiply(g, greater(b, a))])
greater = Definition("greater", lambda a, b: np.greater(a, b) * 1.0, broadcast,
    lambda g, y, a, b: [multiply(g, 0.0), multiply(g, 0.0)])
exp = Definition("exp", np.exp, lambda x: x, lambda g, y, x: [multiply(g, y)])
matmul = Definition("matmul", np.matmul, lambda a, b: [a[0], b[1]],
    lambda g, y, a, b: [matmul(g, transpose(b)), matmul(transpose(a), g)])
transpose = Definition("transpose", np.transpose, lambda x: x[::-1],
    lambda g, y, x: [transpose(g)])
reshape = Definition("reshape", np.reshape, lambda x, shape: shape,
    lambda g, y, x, shape: [reshape(g, shape=x.shape)])
reduce_sum = Definition("reduce_sum",
    lambda x, axes: np.sum(x, axis=tuple(axes), keepdims=True), reduced_shape,
    lambda g, y, x, axes: [multiply(g, np.ones(x.shape))])
reduce_max = Definition("reduce_max",
    lambda x, axes: np.max(x, axis=tuple(axes), keepdims=True), reduced_shape,
    lambda g, y, x, axes: [multiply(g, subtract(1.0, greater(y, x)))])
# Composites: nothing else is declared for them anywhere.
subtract = Definition("subtract", lambda x, y: add(x, multiply(y, -1.0)))
relu = Definition("relu", lambda x: maximum(x, 0.0))
normalize = Definition("normalize", lambda x, axes: divide(x, reduce_sum(x, axes=axes)))
softmax = Definition("softmax", lambda x, axes:
    normalize(exp(subtract(x, reduce_max(x, axes=axes))), axes=axes))

# ---- 3. A format (amanda-onnx, amanda-tf): files of one framework, without loss
def read(text):
    """A graph of the framework `tiny` from its text. A format maps nothing."""
    graph = Graph("tiny")
    for number, line in enumerate(text.strip().splitlines(), 1):
        match line.split():
            case ["input", name, *sizes]:
                graph.parameter(name, map(int, sizes))
            case ["weight", name, sizes, *numbers]:
                shape = [int(size) for size in sizes.split("x")]
                graph.constant(np.array(numbers, float).reshape(shape), name)
            case ["output", *names]:
                graph.results = [graph.ops[name] for name in names]
            case [name, "=", type, *rest]:
                attrs = dict(word.split("=") for word in rest if "=" in word)
                inputs = [graph.ops[word] for word in rest if "=" not in word]
                graph.add(type, inputs, {k: int(v) for k, v in attrs.items()}, name)
            case _:
                raise ValueError(f"line {number}: expected a statement, got {line!r}")
    return graph

def write(graph):
    lines = []
    for op in graph:
        if op.type == "parameter":
            words = ["input", op.name, *map(str, op.shape)]
        elif op.type == "constant":
            numbers = [f"{number:.17g}" for number in op.attrs["value"].ravel()]
            words = ["weight", op.name, "x".join(map(str, op.shape)), *numbers]
        else:
            attrs = [f"{key}={value}" for key, value in op.attrs.items()]
            words = [op.name, "=", op.type, *(v.name for v in op.inputs), *attrs]
        lines.append(" ".join(words))
    return "\n".join([*lines, " ".join(["output", *(op.name for op in graph.results)])])

# ---- 4. Mapping (amanda.mapping): rules are equations, which run both ways
RULES = """
    MatMul(a, b)        <=>  matmul(a, b)
    Add(a, b)           <=>  add(a, b)
    Relu(x)             <=>  relu(x)
    Softmax(x, axis=a)  <=>  softmax(x, axes=only(a))
    Dense(x, w, b)      <=>  add(matmul(x, w), b)
"""

class Decline(Exception):
    """Why a rule does not apply."""

def undo_only(axes):
    if len(axes) == 1:
        return axes[0]
    raise Decline(f"one axis expected, got {axes}")

# A lens translates an attribute in both directions: do, undo.
LENSES = {"": (lambda x: x, lambda x: x), "only": (lambda axis: [axis], undo_only)}

def parse(tokens):
    """A term `op(values, key=attribute)`: type, arguments, attributes (lens, variable).

    A bare word is a variable. The text of a rule is parsed, and never evaluated."""
    type, args, attrs = tokens.pop(0), [], {}
    if tokens[:1] != ["("]:
        return type
    while tokens.pop(0) != ")":
        key = tokens[0] if tokens[1] == "=" else None
        del tokens[: 2 if key else 0]
        term = parse(tokens)
        if key:
            attrs[key] = ("", term) if isinstance(term, str) else (term[0], term[1][0])
        else:
            args.append(term)
    return type, args, attrs

def match_term(term, op, bound):
    """Bind the variables of a pattern; the ops that it covers, its root first."""
    if isinstance(term, str):
        if bound.setdefault(term, op) is not op:
            raise Decline(f"{term} stands for two values")
        return []
    type, args, attrs = term
    if op.type != type or set(op.attrs) != set(attrs):
        raise Decline(f"expected {type} with attributes {list(attrs)}")
    for key, (lens, variable) in attrs.items():
        bound[variable] = LENSES[lens][1](op.attrs[key])
    covered = [op]
    for arg, value in zip(args, op.inputs, strict=True):
        covered += match_term(arg, value, bound)
    return covered

def build_term(term, graph, bound, name=None):
    """The value of a pattern in a new graph, given the values of its variables."""
    if isinstance(term, str):
        return bound[term]
    type, args, attrs = term
    inputs = [build_term(arg, graph, bound) for arg in args]
    attrs = {key: LENSES[lens][0](bound[v]) for key, (lens, v) in attrs.items()}
    if graph.namespace == "std":
        return STD[type].trace(graph, inputs, attrs, name)
    return graph.add(type, inputs, attrs, name)

def match_rule(pattern, op, graph):
    """The ops that a pattern covers from this root, and its variables, or Decline."""
    bound = {}
    ops = match_term(pattern, op, bound)
    needed = [value for op in graph if op not in ops for value in op.inputs]
    if set(ops[1:]) & {*needed, *graph.results}:
        raise Decline("a value inside the pattern is needed outside")
    return ops, bound

def cover(graph, rules):
    """The rule for each op: target and variables. All gaps are reported at once."""
    chosen, inner, gaps = {}, set(), []
    for op in reversed(list(graph)):
        if op.type in SOURCES or op in inner:
            continue
        matches, reason = [], f"no rule for {op.type}"
        for source, target in rules:
            try:
                matches.append((*match_rule(source, op, graph), target))
            except Decline as declined:
                reason = declined if source[0] == op.type else reason
        if matches:
            ops, bound, target = max(matches, key=lambda match: len(match[0]))
            chosen[op] = target, bound
            inner |= set(ops[1:])
        else:
            gaps.insert(0, f"`{op}`: {reason}")
    if gaps:
        raise ValueError("\n".join(["these ops have no mapping:", *gaps]))
    return chosen

def convert(graph, namespace):
    """The same graph in the other namespace."""
    text = RULES.strip()
    for sign in "(),=":
        text = text.replace(sign, f" {sign} ")
    sides = [line.split("< = >") for line in text.splitlines()]
    rules = [[parse(side.split()) for side in pair] for pair in sides]
    rules = rules if namespace == "std" else [rule[::-1] for rule in rules]
    chosen = cover(graph, rules)
    def emit(new, op, memo):
        if op not in chosen:
            return None  # inside a pattern, whose root comes later
        target, bound = chosen[op]
        values = {k: memo[v] if isinstance(v, Op) else v for k, v in bound.items()}
        return build_term(target, new, values, op.name)
    return rebuild(graph, namespace, emit)

# ---- 5. Lowering: unsupported ops are replaced by their definitions
def lower(graph, supported):
    """Expand composites one level at a time, until the target supports every op."""
    def expand(new, op, memo):
        definition, values = STD[op.type], [memo[value] for value in op.inputs]
        if op.type in supported:
            return definition.trace(new, values, op.attrs, op.name)
        if definition.is_primitive:
            raise ValueError(f"`{op}`: a primitive that the target does not support")
        return definition.function(*values, **op.attrs)
    while any(op.type not in (*supported, *SOURCES) for op in graph):
        graph = rebuild(graph, "std", expand)
    return graph

# ---- 6. A backend (the numpy backend of amanda_std): supported ops, and compile
KERNELS = {name: op.function for name, op in STD.items() if op.is_primitive}

def compile_numpy(graph):
    """An executable: steps over numbered slots, emptied after their last use."""
    graph = lower(graph, KERNELS)
    slots = {op: number for number, op in enumerate(graph)}
    last = {slots[value]: op for op in graph for value in op.inputs}
    results = [slots[op] for op in graph.results]
    steps = []
    for op in graph:
        if op.type in KERNELS:
            reads = [slots[value] for value in op.inputs]
            dead = [n for n, user in last.items() if user is op and n not in results]
            steps.append((KERNELS[op.type], reads, op.attrs, slots[op], dead))
    expected = {op.name: tuple(op.shape) for op in graph if op.type == "parameter"}
    def executable(**feeds):
        got = {name: np.shape(value) for name, value in feeds.items()}
        if got != expected:
            raise ValueError(f"expected feeds of shapes {expected}, got {got}")
        values = [feeds.get(op.name, op.attrs.get("value")) for op in slots]
        for kernel, reads, attrs, output, dead in steps:
            values[output] = kernel(*(values[n] for n in reads), **attrs)
            for number in dead:
                values[number] = None
        return [values[number] for number in results]
    return executable

# ---- 7. Gradients (amanda_std): reverse mode, from graph to graph
def sum_to(g, shape):
    """Undo broadcasting: the sum over the axes along which a value was repeated."""
    sizes = (1,) * (len(g.shape) - len(shape)) + shape
    axes = [axis for axis, size in enumerate(sizes) if size < g.shape[axis]]
    return g if sizes == g.shape else reshape(reduce_sum(g, axes=axes), shape=shape)

def grad(graph, names):
    """The gradients of the sum of the first result with respect to these values."""
    graph = lower(graph, KERNELS)
    gradients = {op: graph.constant(np.ones(op.shape)) for op in graph.results[:1]}
    for op in reversed(list(graph)):
        if op.type not in SOURCES and op in gradients:
            rule = STD[op.type].gradient
            parts = rule(gradients[op], op, *op.inputs, **op.attrs)
            for value, part in zip(op.inputs, parts, strict=True):
                part, sofar = sum_to(part, value.shape), gradients.get(value)
                gradients[value] = add(sofar, part) if sofar else part
    graph.results = [gradients[graph.ops[name]] for name in names]
    return graph

MODEL = """
input x 2 3
weight w 3x2 0.5 -1 0.25 2 -0.75 1
weight b 2 0.125 -0.5
h = Dense x w b
r = Relu h
y = Softmax r axis=1
output y
"""
if __name__ == "__main__":
    model = read(MODEL)
    hub = convert(model, "std")
    feeds = {"x": [[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]]}
    for graph in (model, hub, lower(hub, KERNELS)):
        print(f"-- {graph.namespace}", *graph, sep="\n")
    print("-- y =", *compile_numpy(hub)(**feeds))
    print("-- gradient by w =", *compile_numpy(grad(hub, ["w"]))(**feeds))
    print("-- written again", write(convert(hub, "tiny")), sep="\n")
