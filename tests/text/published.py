"""Documents of our own in every syntax that the published specification had."""

from __future__ import annotations

__all__ = ["DOCUMENTS"]

DOCUMENTS = {
    "op, first form": """
op:
  name: split
  type: Split
  input_ports:
    - name: whole
  output_ports:
    - name: head
    - name: tail
""",
    "op with built-in attributes among the others": """
op:
  attrs:
    name: clip
    type: Clip
    low: 0.5
""",
    "attributes as a list": """
op:
  type: Pad
  attrs:
    - key: name
      value: pad
    - key: sizes
      value: [0, 1, [2, 3]]
    - key: mode
      value: {kind: edge}
""",
    "edge, first form": """
edge:
  output_port:
    op: split
    port: head
  input_port:
    op: join
    port: 0
""",
    "control edge by number": """
edge:
  output_port: { op: split, port: -1 }
  input_port: { op: join, port: -1 }
""",
    "control edge by name": """
edge:
  output_port: { op: split, port: ^control }
  input_port: { op: join, port: ^control }
""",
    "edge as text": "split.head -> join.left\n",
    "control edge as text": "split.^control -> join.^control\n",
    "graph of lists": """
graph:
  namespace: amanda/example/2.0
  attrs:
    - key: made
      value: { by: hand }
  ops:
    - name: split
      type: Split
      output_ports:
        - name: head
          attrs: { width: 3 }
        - name: tail
    - name: join
      type: Join
      input_ports:
        - name: left
        - name: right
          attrs:
            - key: axis
              value: 1
      output_ports:
        - name: all
  edges:
    - output_port: { op: split, port: head }
      input_port: { op: join, port: right }
    - output_port:
        op: split
        port: tail
      input_port:
        op: join
        port: left
      attrs: { weight: 2 }
    - output_port: { op: split, port: -1 }
      input_port: { op: join, port: -1 }
""",
    "subgraph": """
subgraph:
  namespace: amanda/example/2.0
  type: Block
  name: block
  input_ports:
    - name: signal
  output_ports:
    - name: result
  ops:
    - name: scale
      input_ports: [{name: x}]
      output_ports: [{name: y}]
  edges:
    - output_port: { op: block, port: signal }
      input_port: { op: scale, port: x }
    - output_port: { op: scale, port: y }
      input_port: { op: block, port: result }
    - output_port: { op: block, port: ^control }
      input_port: { op: scale, port: ^control }
    - output_port: { op: scale, port: ^control }
      input_port: { op: block, port: ^control }
""",
    "ops and ports without names": """
subgraph:
  name: graph
  input_ports:
    - name: input.7
      attrs: { type: "Double(2, 3)" }
  output_ports:
    - {}
  ops:
    - type: example::load
      output_ports:
        - name: "12"
    - type: example::mix
      input_ports:
        - {}
        - {}
      output_ports:
        - {}
  edges:
    - output_port: { op: graph, port: input.7 }
      input_ports: { op: 1, port: 0 }
    - output_port: { op: 0, port: "12" }
      input_ports: { op: 1, port: 1 }
    - output_port: { op: 1, port: 0 }
      input_ports: { op: graph, port: 0 }
""",
    "op under its name": """
split:
  type: Split
  input_ports: [whole]
  output_ports: [head, tail]
""",
    "op under its name, its type among the attributes": """
clip:
  attrs:
    type: Clip
""",
    "graph under no name": """
graph:
  default_type_system: example
  namespace: amanda/example/3.0
  input_ports:
    - in0: ex.Array<f64>(2, 3)
  output_ports:
    - out0
  ops:
    load:
      type: example::load
      output_ports:
        out0: ex.Array<f64>(9, 3)
    mix:
      type: example::mix
      input_ports:
        - in0
        - in1: ex.Array<f64_ref>
      output_ports:
        - out0: float64[2, 9]
  edges:
    - graph.in0 -> mix.in0
    - load.out0 -> mix.in1
    - mix.out0 -> graph.out0
    - load.^control -> mix.^control
""",
    "subgraph under its name, with a subgraph": """
outer:
  type: Model
  input_ports: [x]
  output_ports: [y]
  ops:
    inner:
      type: Layer
      input_ports: [x]
      output_ports: [y]
      ops:
        scope/scale:
          type: Scale
          input_ports: [a]
          output_ports: [b]
      edges:
        - inner.x -> scope/scale.a
        - scope/scale.b -> inner.y
    last:
      input_ports: [p]
      output_ports: [q]
  edges:
    - outer.x -> inner.x
    - inner.y -> last.p
    - last.q -> outer.y
""",
    "a source named by its op's input": """
unit:
  output_ports: [made]
  ops:
    start: {output_ports: [s]}
    scale:
      input_ports: [given]
      output_ports: [scaled]
  edges:
    - start.s -> scale.given
    - scale.given -> unit.made
""",
    "ops in any order": """
graph:
  ops:
    last: {input_ports: [x]}
    middle: {input_ports: [x], output_ports: [y]}
    first: {output_ports: [y]}
  edges:
    - middle.y -> last.x
    - first.y -> middle.x
""",
}
