"use strict";
// Positions of what is visible. Each open group is laid out by itself, inner groups first;
// an edge that crosses the border of a group passes it at a port.

const MANY_READERS = 8; // a value with more readers is drawn as stubs at most of them
const NODE_HEIGHT = 44, SMALL_HEIGHT = 26, HEADER = 30, PADDING = 18, MAX_TEXT = 210;
const SLOW = 120; // nodes of a level above which the faster ranking is used

const measure = document.createElement("canvas").getContext("2d");
const FONT = "system-ui, 'Segoe UI', 'Liberation Sans', sans-serif";
const widths = new Map();

function textWidth(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    measure.font = `${font} ${FONT}`;
    widths.set(key, measure.measureText(text).width);
  }
  return widths.get(key);
}

function fitText(text, font, limit) {
  if (textWidth(text, font) <= limit) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(text.slice(0, middle) + "…", font) <= limit) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}

const TITLE_FONT = "600 12.5px", SMALL_FONT = "11px";

// What is written on a closed node.
function nodeTexts(model, i) {
  const kind = model.kind[i];
  if (kind === KIND.PARAMETER || kind === KIND.RESULT) {
    const type = kind === KIND.RESULT ? resultType(model, i) : model.outputType(i, 0);
    return { title: model.title(i), below: type };
  }
  if (kind === KIND.GROUP || kind === KIND.BODY || kind === KIND.FUNCTION) {
    return { title: model.label(i), below: countText(model.leaves[i], model.constants[i]) };
  }
  const label = model.label(i), type = model.type(i) || "graph";
  return { title: type, below: label === type ? "" : label };
}

function resultType(model, i) {
  const row = model.data.inputs[i];
  return row.length && row[0] >= 0 ? model.outputType(row[0], row[1]) : "";
}

function countText(ops, constants) {
  if (!ops) return constants === 1 ? "1 constant" : `${constants.toLocaleString("en")} constants`;
  return ops === 1 ? "1 op" : `${ops.toLocaleString("en")} ops`;
}

function closedSize(model, i) {
  const { title, below } = nodeTexts(model, i);
  const shown = fitText(title, TITLE_FONT, MAX_TEXT), under = fitText(below, SMALL_FONT, MAX_TEXT);
  const width = Math.max(textWidth(shown, TITLE_FONT), textWidth(under, SMALL_FONT)) + 30;
  return { title: shown, below: under, width: Math.max(72, Math.ceil(width)),
    height: under ? NODE_HEIGHT : SMALL_HEIGHT + 4 };
}

// The outermost closed node around each node, or itself.
function representatives(model) {
  const found = new Int32Array(model.size);
  for (let i = 1; i < model.size; i++) {
    const p = model.parent[i];
    found[i] = found[p] === p && model.isOpen(p) ? i : found[p];
  }
  return found;
}

// Edges between visible nodes: source, target, number of values, whether of control only.
function visibleEdges(model) {
  const shown = representatives(model), found = new Map();
  for (let i = 1; i < model.size; i++) {
    const row = model.data.inputs[i], target = shown[i];
    for (let k = 0; k < row.length; k += 3) {
      if (row[k] < 0) continue;
      const source = shown[row[k]];
      if (source === target || model.contains(source, target) || model.contains(target, source))
        continue;
      if (!model.showsConstants && model.isHidden(row[k])) continue;
      const key = source * model.size + target;
      let edge = found.get(key);
      if (!edge) {
        edge = { source, target, count: 0, control: true, types: new Set(), stub: false };
        found.set(key, edge);
      }
      edge.count++;
      if (row[k + 1] !== CONTROL) {
        edge.control = false;
        if (edge.types.size < 4) edge.types.add(model.outputType(row[k], row[k + 1]));
      }
    }
  }
  const edges = Array.from(found.values());
  markStubs(edges);
  return edges;
}

// Of a value with many readers, edges to readers with other inputs are stubs.
function markStubs(edges) {
  const fans = new Map(), reads = new Map();
  for (const edge of edges) {
    if (!fans.has(edge.source)) fans.set(edge.source, []);
    fans.get(edge.source).push(edge);
    reads.set(edge.target, (reads.get(edge.target) || 0) + 1);
  }
  for (const fan of fans.values()) {
    if (fan.length <= MANY_READERS) continue;
    fan.sort((a, b) => a.target - b.target);
    for (const edge of fan.slice(1)) {
      if (reads.get(edge.target) < 2) continue;
      edge.stub = true;
      reads.set(edge.target, reads.get(edge.target) - 1);
    }
  }
}

class Level {
  constructor(group, children) {
    this.group = group;
    this.children = children;
    this.links = new Map(); // "from>to" to the edges that take this way
  }
  link(from, to, edge) {
    const key = `${from}>${to}`;
    if (!this.links.has(key)) this.links.set(key, { from, to, edges: [] });
    this.links.get(key).edges.push(edge);
  }
}

// Divide the edges among the levels of open groups that they cross.
function buildLevels(model, edges) {
  const levels = new Map();
  const open = [0];
  while (open.length) {
    const group = open.pop(), children = model.children(group);
    levels.set(group, new Level(group, children));
    for (const child of children) if (model.isOpen(child)) open.push(child);
  }
  for (const edge of edges) {
    if (edge.stub) continue;
    let from = edge.source, to = edge.target;
    let above = model.parent[from];
    while (!model.contains(above, to)) {
      levels.get(above).link(from, `out:${edge.source}`, edge);
      from = above;
      above = model.parent[from];
    }
    let under = model.parent[to];
    while (under !== above) {
      levels.get(under).link(`in:${edge.source}`, to, edge);
      to = under;
      under = model.parent[to];
    }
    levels.get(above).link(from, to, edge);
  }
  return levels;
}

const layouts = new Map(); // results by what they depend on

function layoutLevel(model, level, sizes) {
  const parts = [level.children.map((c) => `${c}:${sizes.get(c).width}:${sizes.get(c).height}`)];
  const key = parts.concat(Array.from(level.links.keys())).join(" ");
  if (!layouts.has(key)) {
    if (layouts.size > 500) layouts.clear();
    layouts.set(key, runLayout(level, sizes));
  }
  return layouts.get(key);
}

function runLayout(level, sizes) {
  const linked = new Set();
  for (const { from, to } of level.links.values()) linked.add(from).add(to);
  const placed = new Map(), ways = new Map();
  let width = 0, height = 0;
  if (level.links.size) {
    const graph = dagreGraph(level, linked, sizes);
    ({ width, height } = readLayout(graph, level, placed, ways));
  }
  const loose = level.children.filter((c) => !linked.has(c));
  ({ width, height } = placeLoose(loose, sizes, placed, width, height));
  return { placed, ways, width, height };
}

function dagreGraph(level, linked, sizes) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 22, edgesep: 14, ranksep: 34, marginx: 0, marginy: 0,
    ranker: linked.size > SLOW ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  const ports = [];
  for (const c of level.children)
    if (linked.has(c)) graph.setNode(String(c), { ...sizes.get(c) });
  for (const node of linked)
    if (typeof node === "string") {
      graph.setNode(node, { width: 1, height: 1 });
      ports.push(node);
    }
  for (const { from, to, edges } of level.links.values())
    graph.setEdge(String(from), String(to), { weight: Math.min(4, edges.length) });
  anchorPorts(graph, level, linked, ports);
  return graph;
}

// Ports are above or below everything else: all of them hang on one node each.
function anchorPorts(graph, level, linked, ports) {
  const heads = new Set(linked), tails = new Set(linked);
  for (const { from, to } of level.links.values()) {
    heads.delete(to);
    tails.delete(from);
  }
  for (const [mark, ends] of [["in:", heads], ["out:", tails]]) {
    const own = ports.filter((port) => port.startsWith(mark));
    if (!own.length) continue;
    const anchor = `anchor ${mark}`;
    graph.setNode(anchor, { width: 1, height: 1 });
    for (const node of ends) {
      const weight = own.includes(node) ? 50 : 0;
      const [a, b] = mark === "in:" ? [anchor, node] : [node, anchor];
      graph.setEdge(String(a), String(b), { weight });
    }
  }
}

function readLayout(graph, level, placed, ways) {
  dagre.layout(graph);
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  for (const id of graph.nodes()) {
    const { x, y, width, height } = graph.node(id);
    if (id.startsWith("anchor ")) continue;
    placed.set(/^\d/.test(id) ? Number(id) : id, { x, y });
    left = Math.min(left, x - width / 2);
    right = Math.max(right, x + width / 2);
    if (!/^\d/.test(id)) continue;
    top = Math.min(top, y - height / 2);
    bottom = Math.max(bottom, y + height / 2);
  }
  for (const [key, { from, to }] of level.links) {
    const points = graph.edge(String(from), String(to)).points.map(({ x, y }) => ({ x, y }));
    for (const { x } of points) { left = Math.min(left, x); right = Math.max(right, x); }
    leaveVertically(points, graph.node(String(from)), graph.node(String(to)));
    ways.set(key, points);
  }
  const shift = ({ x, y }) => ({ x: x - left, y: y - top });
  for (const [id, at] of placed) placed.set(id, shift(at));
  for (const [key, points] of ways) ways.set(key, points.map(shift));
  return { width: right - left, height: bottom - top };
}

// Edges leave a node at its bottom and come in at its top; those of cycles the reverse.
function leaveVertically(points, from, to) {
  const down = from.y <= to.y ? 1 : -1, last = points.length - 1;
  for (const [at, next, node, side] of [[0, 1, from, down], [last, last - 1, to, -down]]) {
    const reach = Math.max(0, node.width / 2 - 10);
    const x = Math.min(node.x + reach, Math.max(node.x - reach, points[next].x));
    points[at] = { x, y: node.y + side * node.height / 2 };
  }
}

// Nodes without edges, in rows below the others.
function placeLoose(nodes, sizes, placed, width, height) {
  if (!nodes.length) return { width, height };
  const gap = 22;
  const area = nodes.reduce((sum, c) => sum + (sizes.get(c).width + gap) * (sizes.get(c).height + gap), 0);
  const limit = Math.max(width, Math.sqrt(area) * 1.3, sizes.get(nodes[0]).width);
  let x = 0, y = height ? height + 2 * gap : 0, row = 0, widest = width;
  for (const c of nodes) {
    const size = sizes.get(c);
    if (x && x + size.width > limit) { x = 0; y += row + gap; row = 0; }
    placed.set(c, { x: x + size.width / 2, y: y + size.height / 2 });
    x += size.width + gap;
    row = Math.max(row, size.height);
    widest = Math.max(widest, x - gap);
  }
  return { width: widest, height: y + row };
}

// The boxes of all visible nodes and the ways of all edges, in coordinates of the page.
function layoutAll(model) {
  const edges = visibleEdges(model), levels = buildLevels(model, edges);
  const sizes = new Map(), inner = new Map();
  for (const level of Array.from(levels.values()).sort((a, b) => b.group - a.group)) {
    for (const c of level.children) if (!model.isOpen(c)) sizes.set(c, closedSize(model, c));
    const made = layoutLevel(model, level, sizes);
    inner.set(level.group, made);
    const title = fitText(openTitle(model, level.group), TITLE_FONT, 320);
    const width = Math.max(made.width, textWidth(title, TITLE_FONT) + 40) + 2 * PADDING;
    sizes.set(level.group, { title, width, height: made.height + HEADER + 2 * PADDING });
  }
  const boxes = new Map();
  placeBoxes(model, 0, 0, 0, { levels, sizes, inner, boxes });
  return { boxes, edges, paths: tracePaths(model, levels, inner, boxes) };
}

function openTitle(model, i) {
  const type = model.type(i), label = model.label(i);
  return type && type !== label && model.kind[i] === KIND.OP ? `${type}  ${label}` : label || type;
}

function placeBoxes(model, group, left, top, all) {
  const size = all.sizes.get(group), made = all.inner.get(group);
  all.boxes.set(group, { x: left, y: top, width: size.width, height: size.height,
    title: size.title, open: true });
  const free = size.width - 2 * PADDING - made.width;
  made.left = left + PADDING + free / 2;
  made.top = top + HEADER + PADDING;
  for (const c of all.levels.get(group).children) {
    const at = made.placed.get(c), own = all.sizes.get(c);
    const x = made.left + at.x - own.width / 2, y = made.top + at.y - own.height / 2;
    if (model.isOpen(c)) placeBoxes(model, c, x, y, all);
    else all.boxes.set(c, { x, y, width: own.width, height: own.height, title: own.title,
      below: own.below, open: false });
  }
}

// One path for each link of a level; several where a port makes them distinct.
function tracePaths(model, levels, inner, boxes) {
  const paths = [];
  for (const level of levels.values()) {
    const made = inner.get(level.group);
    for (const [key, { from, to, edges }] of level.links) {
      const points = made.ways.get(key).map(({ x, y }) => ({ x: x + made.left, y: y + made.top }));
      const bySource = new Map();
      const distinct = [from, to].some((n) => typeof n === "number" && model.isOpen(n));
      for (const edge of edges) {
        const group = distinct ? edge.source : 0;
        if (!bySource.has(group)) bySource.set(group, []);
        bySource.get(group).push(edge);
      }
      for (const own of bySource.values()) {
        const line = points.slice();
        const start = pathEnd(level, from, "out", own[0].source, line[0]);
        const end = pathEnd(level, to, "in", own[0].source, line[line.length - 1]);
        if (typeof from === "string") line.unshift(start);
        else line[0] = start;
        if (typeof to === "string") line.push(end);
        else line[line.length - 1] = end;
        paths.push({ points: line, edges: own, ends: typeof to === "number" && !hasPort(to, own[0].source) });
      }
    }
  }
  function hasPort(node, source) {
    return typeof node === "number" && model.isOpen(node) && inner.get(node).placed.has(`in:${source}`);
  }
  function pathEnd(level, node, side, source, point) {
    if (typeof node === "string") { // a port: the line goes to the border
      const box = boxes.get(level.group);
      return { x: point.x, y: node.startsWith("in:") ? box.y : box.y + box.height };
    }
    if (!model.isOpen(node)) return point;
    const made = inner.get(node), box = boxes.get(node), port = made.placed.get(`${side}:${source}`);
    const x = port ? made.left + port.x : box.x + box.width / 2;
    return { x, y: side === "in" ? box.y : box.y + box.height };
  }
  return paths;
}
