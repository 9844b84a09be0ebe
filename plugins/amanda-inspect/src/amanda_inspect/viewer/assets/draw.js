"use strict";
// The picture: SVG elements of boxes and edges, and its zoom.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function pathData(points) {
  const at = ({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`;
  if (points.length < 3) return `M${at(points[0])}L${at(points[points.length - 1])}`;
  let text = `M${at(points[0])}`;
  for (let i = 1; i < points.length - 1; i++) {
    const last = i === points.length - 2, next = points[i + 1];
    const end = last ? next : { x: (points[i].x + next.x) / 2, y: (points[i].y + next.y) / 2 };
    text += `Q${at(points[i])} ${at(end)}`;
  }
  return text;
}

// A hue for each op type, the same on every page.
function hueOf(type) {
  let hash = 7;
  for (const c of type) hash = (hash * 31 + c.codePointAt(0)) % 9973;
  return (hash * 137.5) % 360;
}

class Picture {
  constructor(model, svgElement, handlers) {
    this.model = model;
    this.svg = svgElement;
    this.handlers = handlers;
    this.view = { x: 0, y: 0, scale: 1 };
    this.world = svg("g", { id: "world" });
    this.svg.append(this.markers(), this.world);
    this.elements = new Map();
    this.listen();
  }

  markers() {
    const arrow = (id) => svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4,
      markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
    svg("path", { d: "M0,0.5L8,4L0,7.5z" }));
    return svg("defs", {}, arrow("arrow"), arrow("arrow-lit"));
  }

  // Lay out and draw what is visible; `anchor` stays where it is on the screen.
  refresh(anchor) {
    const before = anchor === undefined ? null : this.boxes && this.boxes.get(anchor);
    const { boxes, edges, paths } = layoutAll(this.model);
    Object.assign(this, { boxes, edges, paths });
    const groups = svg("g"), lines = svg("g", { class: "edges" }), nodes = svg("g"), titles = svg("g");
    this.elements = new Map();
    for (const [i, box] of boxes) {
      if (i === 0) continue;
      const element = box.open ? this.drawGroup(i, box) : this.drawNode(i, box);
      this.elements.set(i, element);
      (box.open ? groups : nodes).append(element);
      if (box.open) titles.append(svg("text", { class: "group-title", x: box.x + 28, y: box.y + 20 }, box.title));
    }
    this.lines = paths.map((path) => this.drawEdge(path));
    lines.append(...this.lines, ...this.drawStubs());
    this.world.replaceChildren(groups, lines, nodes, titles);
    const after = before && boxes.get(anchor);
    if (after) this.moveBy((before.x - after.x) * this.view.scale, (before.y - after.y) * this.view.scale);
  }

  drawEdge(path) {
    const control = path.edges.every((edge) => edge.control);
    const count = path.edges.reduce((sum, edge) => sum + edge.count, 0);
    const line = svg("path", { d: pathData(path.points),
      class: `edge${control ? " control" : ""}${path.ends ? " ends" : ""}` });
    line.style.strokeWidth = Math.min(5, 1 + Math.log2(count) * 0.6);
    const types = new Set(path.edges.flatMap((edge) => Array.from(edge.types)).filter(Boolean));
    const text = [count > 1 ? `${count} values` : "", ...types].filter(Boolean).join("\n");
    if (text) line.append(svg("title", {}, text));
    line.addEventListener("click", (event) => {
      event.stopPropagation();
      this.handlers.follow(path.edges[0]);
    });
    return line;
  }

  drawStubs() {
    const drawn = [], counts = new Map();
    for (const edge of this.edges) {
      if (!edge.stub) continue;
      const box = this.boxes.get(edge.target), n = counts.get(edge.target) || 0;
      counts.set(edge.target, n + 1);
      const x = box.x + 12 + 12 * n, stub = svg("g", { class: "stub" },
        svg("path", { d: `M${x},${box.y - 9}V${box.y}` }),
        svg("circle", { cx: x, cy: box.y - 11, r: 3.5 }),
        svg("title", {}, `from ${this.model.title(edge.source)}`));
      stub.addEventListener("click", (event) => {
        event.stopPropagation();
        this.handlers.select(edge.source, true);
      });
      drawn.push(stub);
    }
    return drawn;
  }

  drawNode(i, box) {
    const model = this.model, group = model.isGroup(i), kind = model.kind[i];
    const element = this.element(i, `node kind-${kind}${group ? " closed" : ""}`);
    const { x, y, width, height } = box;
    const round = kind === KIND.PARAMETER || kind === KIND.RESULT ? height / 2 : 6;
    if (group) element.append(svg("rect", { class: "back", x: x + 3, y: y + 3, width, height, rx: round }));
    element.append(svg("rect", { class: "box", x, y, width, height, rx: round }));
    if (kind === KIND.OP || kind === KIND.REMOVED) {
      const bar = svg("rect", { class: "bar", x: x + 6, y: y + 7, width: 3, height: height - 14, rx: 1.5 });
      bar.style.fill = `hsl(${hueOf(model.type(i))} 55% 55%)`;
      element.append(bar);
    }
    const middle = x + width / 2 + (kind === KIND.OP ? 3 : 0);
    element.append(svg("text", { class: "title", x: middle, y: y + (box.below ? 19 : height / 2 + 4.5) }, box.title));
    if (box.below) element.append(svg("text", { class: "below", x: middle, y: y + 35 }, box.below));
    return element;
  }

  drawGroup(i, box) {
    const element = this.element(i, `group kind-${this.model.kind[i]}`);
    const { x, y, width, height } = box;
    element.append(
      svg("rect", { class: "box", x, y, width, height, rx: 9 }),
      svg("g", { class: "fold" }, svg("rect", { x: x + 4, y: y + 3, width: 24, height: 25 }),
        svg("path", { d: `M${x + 12},${y + 15.5}h9` })));
    return element;
  }

  element(i, names) {
    const model = this.model, open = model.isOpen(i);
    const words = [model.type(i), model.title(i)].filter(Boolean).join(" ");
    const element = svg("g", { class: names, "data-node": i, tabindex: -1, role: "button", "aria-label": words });
    if (model.isGroup(i)) element.setAttribute("aria-expanded", String(open));
    element.append(svg("title", {}, words));
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      if (this.wasDragged) return;
      if (open && event.target.closest(".fold")) this.handlers.toggle(i);
      else this.handlers.select(i, false);
    });
    element.addEventListener("dblclick", (event) => {
      event.stopPropagation();
      if (model.isGroup(i)) this.handlers.toggle(i);
    });
    return element;
  }

  // Mark a node, and the edges and nodes next to it.
  highlight(i) {
    for (const each of this.world.querySelectorAll(".selected, .near, .lit"))
      each.classList.remove("selected", "near", "lit");
    this.world.classList.toggle("focused", i > 0);
    if (!(i > 0)) return;
    const element = this.elements.get(i);
    if (element) element.classList.add("selected");
    this.paths.forEach((path, k) => {
      if (!path.edges.some((edge) => edge.source === i || edge.target === i)) return;
      this.lines[k].classList.add("lit");
      for (const { source, target } of path.edges)
        for (const near of [source, target])
          if (near !== i && (source === i || target === i)) this.elements.get(near)?.classList.add("near");
    });
  }

  // -- zoom ---------------------------------------------------------------------------

  apply() {
    const { x, y, scale } = this.view;
    this.world.setAttribute("transform", `translate(${x},${y}) scale(${scale})`);
  }

  moveBy(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.apply();
  }

  zoom(factor, cx, cy) {
    const { width, height } = this.svg.getBoundingClientRect();
    const [px, py] = cx === undefined ? [width / 2, height / 2] : [cx, cy];
    const scale = Math.min(4, Math.max(0.03, this.view.scale * factor));
    const ratio = scale / this.view.scale;
    this.view = { x: px - (px - this.view.x) * ratio, y: py - (py - this.view.y) * ratio, scale };
    this.apply();
  }

  // The whole graph; a tall one from its top, at a size that can be read.
  fit() {
    const { width, height } = this.svg.getBoundingClientRect(), box = this.boxes.get(0);
    const whole = Math.min(width / (box.width + 24), height / (box.height + 24));
    const scale = Math.min(1.15, Math.max(whole, Math.min(0.75, width / (box.width + 24))));
    const y = box.height * scale > height ? -HEADER * scale + 24 : (height - box.height * scale) / 2;
    this.view = { x: (width - box.width * scale) / 2, y, scale };
    this.apply();
  }

  overview() {
    const { width, height } = this.svg.getBoundingClientRect(), box = this.boxes.get(0);
    const scale = Math.min(1.15, width / (box.width + 24), height / (box.height + 24));
    this.view = { x: (width - box.width * scale) / 2, y: (height - box.height * scale) / 2, scale };
    this.apply();
  }

  center(i) {
    const { width, height } = this.svg.getBoundingClientRect(), box = this.boxes.get(i);
    if (!box) return;
    const scale = Math.max(0.8, this.view.scale);
    const tall = box.height * scale > height * 0.9;
    this.view = { scale, x: width / 2 - (box.x + box.width / 2) * scale,
      y: tall ? 40 - box.y * scale : height / 2 - (box.y + box.height / 2) * scale };
    this.apply();
  }

  listen() {
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = { x: event.clientX, y: event.clientY, moved: 0 };
      this.wasDragged = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      from.moved += Math.abs(dx) + Math.abs(dy);
      if (from.moved > 4 && !this.wasDragged) {
        this.wasDragged = true;
        this.svg.setPointerCapture(event.pointerId);
      }
      if (!this.wasDragged) return;
      this.moveBy(dx, dy);
      from.x = event.clientX;
      from.y = event.clientY;
    });
    for (const name of ["pointerup", "pointercancel"])
      this.svg.addEventListener(name, () => { from = null; });
    this.svg.addEventListener("click", () => { if (!this.wasDragged) this.handlers.select(0, false); });
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.svg.getBoundingClientRect();
      const lines = event.deltaMode === 1 ? 20 : 1;
      this.zoom(Math.exp(-event.deltaY * lines * 0.0016), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
  }
}
