"use strict";
// The panel: facts of the selected node, or of the model.

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

class Panel {
  constructor(model, place, handlers) {
    Object.assign(this, { model, place, handlers });
  }

  link(i) {
    const text = this.model.title(i), type = this.model.type(i);
    return h("button", { class: "link", title: this.model.path(i).concat(text).join(" / "),
      onclick: () => this.handlers.select(i, true) }, text,
    type && type !== text ? h("span", { class: "muted" }, ` ${type}`) : "");
  }

  section(title, ...children) {
    const inside = children.flat().filter(Boolean);
    return inside.length ? h("section", {}, h("h3", {}, title), ...inside) : null;
  }

  // Rows of texts; `counts` is for a wide first column and numbers.
  table(rows, counts = false) {
    return rows.length ? h("table", counts ? { class: "counts" } : {}, h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, k) =>
      h(k ? "td" : "th", k ? {} : { scope: "row" }, cell)))))) : null;
  }

  show(i, overlay) {
    const parts = i > 0 ? this.nodeParts(i, overlay) : this.modelParts(overlay);
    this.place.replaceChildren(...parts.flat().filter(Boolean));
    this.place.scrollTop = 0;
  }

  // -- the model ------------------------------------------------------------------------

  modelParts(overlay) {
    const { head } = this.model.data;
    const counts = new Map();
    for (let i = 1; i < this.model.size; i++)
      if (this.model.kind[i] === KIND.OP) counts.set(this.model.type(i), (counts.get(this.model.type(i)) || 0) + 1);
    const types = Array.from(counts).sort((a, b) => b[1] - a[1]);
    const row = ([type, n]) => [h("button", { class: "link", onclick: () => this.handlers.search(type) }, type), n.toLocaleString("en")];
    return [h("h2", {}, head.title), this.table(head.facts),
      overlay ? this.rankingPart(overlay) : null,
      this.section("Ops by type", this.table(types.slice(0, 30).map(row), true),
        types.length > 30 ? h("details", {}, h("summary", {}, `${types.length - 30} more types`), this.table(types.slice(30).map(row), true)) : null)];
  }

  rankingPart(overlay) {
    const rows = overlay.ranking(20).map(([i, value]) => [this.link(i), overlay.isNumber ? overlay.format(value) : value]);
    return this.section(`${overlay.data.name}: ${overlay.isNumber ? "largest" : "ops"}`, this.table(rows, true),
      overlay.data.unplaced ? h("p", { class: "muted" }, `${overlay.data.unplaced} entries name no op of this graph`) : null);
  }

  // -- a node ---------------------------------------------------------------------------

  nodeParts(i, overlay) {
    const { model } = this, op = model.type(i);
    const group = model.isGroup(i), isOp = model.kind[i] === KIND.OP || model.kind[i] === KIND.REMOVED;
    const space = model.text(model.data.space[i]);
    return [h("div", { class: "crumbs" }, this.crumbs(i)),
      h("h2", {}, op && (isOp || model.kind[i] === KIND.CONSTANT) ? op : model.title(i)),
      op && model.name(i) !== op && isOp ? h("p", { class: "name" }, model.name(i)) : null,
      group ? h("p", { class: "actions" }, countText(model.leaves[i], model.constants[i]), " ",
        h("button", { onclick: () => this.handlers.toggle(i) }, model.isOpen(i) ? "Close" : "Open")) : null,
      overlay ? this.overlayPart(i, overlay) : null,
      this.attributePart(i), this.inputPart(i), this.outputPart(i), this.weightPart(i),
      this.groupPart(i), this.callPart(i), this.originPart(i), this.definitionPart(i, space)];
  }

  crumbs(i) {
    return this.model.ancestors(i).reverse().slice(1).flatMap((p) => [
      h("button", { class: "link", onclick: () => this.handlers.select(p, true) }, this.model.title(p)), " / "]);
  }

  overlayPart(i, overlay) {
    const text = overlay.text(i);
    return text ? this.section(overlay.data.name, h("p", {}, text), overlay.note(i) ? h("p", { class: "muted" }, overlay.note(i)) : null) : null;
  }

  attributePart(i) {
    const row = this.model.data.attributes[i], rows = [];
    for (let k = 0; k < row.length; k += 2)
      rows.push([this.model.text(row[k]), h("code", {}, this.model.text(row[k + 1]))]);
    return this.section("Attributes", this.table(rows));
  }

  inputPart(i) {
    const { model } = this, row = model.data.inputs[i], rows = [];
    for (let k = 0; k < row.length; k += 3) {
      const name = model.text(row[k + 2]) || `${k / 3}`;
      if (row[k] < 0) { rows.push([name, h("span", { class: "muted" }, "none")]); continue; }
      rows.push([name, [this.link(row[k]), row[k + 1] === CONTROL ? "" : this.typeText(row[k], row[k + 1])]]);
    }
    return this.section("Inputs", this.table(rows));
  }

  typeText(i, port) {
    const type = this.model.outputType(i, Math.max(0, port));
    return type ? h("div", { class: "type" }, type) : "";
  }

  outputPart(i) {
    const { model } = this, row = model.data.outputs[i];
    if (model.kind[i] === KIND.RESULT) return null;
    const rows = [];
    for (let k = 0; k < row.length; k += 2)
      rows.push([model.text(row[k]) || `${k / 2}`, h("div", { class: "type" }, model.text(row[k + 1]) || "unknown type")]);
    const users = model.usersOf(i);
    const shown = users.slice(0, 50).map((user) => h("li", {}, this.link(user)));
    return [this.section("Outputs", this.table(rows)),
      this.section("Read by", users.length ? h("ul", {}, shown) : null,
        users.length > 50 ? h("p", { class: "muted" }, `and ${users.length - 50} more`) : null)];
  }

  weightPart(i) {
    const { model } = this, all = model.data.weights;
    if (model.kind[i] === KIND.CONSTANT) return this.section("Elements", this.weightFacts(all[i]));
    return model.constantsOf(i).map(([constant, name]) => all[constant] && all[constant].counts
      ? this.section(`Elements of ${name || model.title(constant)}`, this.weightFacts(all[constant])) : null);
  }

  weightFacts(weight) {
    if (!weight) return null;
    const facts = [["bytes", weight.bytes.toLocaleString("en")]];
    if (weight.values) facts.push(["values", h("code", {}, weight.values.join(", "))]);
    for (const key of ["least", "largest", "mean", "deviation"])
      if (weight[key] !== undefined) facts.push([key, typeof weight[key] === "number" ? weight[key].toPrecision(5) : weight[key]]);
    if (weight.zeros) facts.push(["zeros", weight.zeros.toLocaleString("en")]);
    if (weight.not_finite) facts.push(["not finite", weight.not_finite.toLocaleString("en")]);
    return [weight.counts ? this.histogram(weight) : null, this.table(facts),
      weight.why ? h("p", { class: "muted" }, weight.why) : null];
  }

  histogram(weight) {
    const width = 300, height = 64, most = Math.max(...weight.counts), step = width / weight.counts.length;
    const bars = weight.counts.map((n, k) => {
      const tall = n ? Math.max(1, (n / most) * height) : 0;
      return svg("rect", { x: k * step, y: height - tall, width: Math.max(1, step - 1), height: tall },
        svg("title", {}, `${n.toLocaleString("en")} elements`));
    });
    return svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height + 14}`, role: "img",
      "aria-label": "histogram of the elements" }, ...bars,
    svg("text", { x: 0, y: height + 12 }, weight.least.toPrecision(3)),
    svg("text", { x: width, y: height + 12, "text-anchor": "end" }, weight.largest.toPrecision(3)));
  }

  groupPart(i) {
    const { model } = this;
    if (!model.isGroup(i)) return null;
    const counts = new Map();
    for (let k = i + 1; k < model.end[i]; k++)
      if (model.kind[k] === KIND.OP) counts.set(model.type(k), (counts.get(model.type(k)) || 0) + 1);
    const rows = Array.from(counts).sort((a, b) => b[1] - a[1]).slice(0, 20);
    return this.section("Ops in it", this.table(rows.map(([type, n]) => [type, n.toLocaleString("en")]), true));
  }

  callPart(i) {
    const called = this.model.data.calls[i];
    return called ? this.section("Calls", h("ul", {}, called.map((k) => h("li", {}, this.link(k))))) : null;
  }

  originPart(i) {
    const { made, sources, scopes } = this.model.data, rows = [], parts = [];
    if (scopes[i]) {
      const [module, type, line] = scopes[i];
      for (const [key, value] of [["module", module], ["class", type], ["line", line]])
        if (value) rows.push([key, h("code", {}, value)]);
    }
    if (made[i]) {
      rows.push(["by", made[i][0]], ["from", made[i][1].slice(0, 20).join(", ")]);
      for (const name of made[i][1]) if (sources[name]) parts.push(this.sourceCard(name, sources[name]));
    }
    return this.section("Origin", this.table(rows), parts);
  }

  sourceCard(name, source) {
    const pairs = (list) => list.map(([key, text]) => [key || "", h("span", { class: "type" }, text)]);
    return h("details", { open: "" }, h("summary", {}, `${source.type} ${name}`),
      h("p", { class: "muted" }, source.namespace || ""),
      source.signature ? h("p", {}, h("code", {}, source.signature)) : null,
      this.table(Object.entries(source.attributes).map(([key, text]) => [key, h("code", {}, text)])),
      this.section("Inputs", this.table(pairs(source.inputs))), this.section("Outputs", this.table(pairs(source.outputs))));
  }

  definitionPart(i, space) {
    const { model } = this;
    if (model.kind[i] !== KIND.OP && model.kind[i] !== KIND.REMOVED) return null;
    const found = model.data.definitions[`${space}:${model.type(i)}`];
    return this.section("Dictionary", h("p", { class: "muted" }, space),
      found ? h("p", {}, h("code", {}, found.signature)) : h("p", { class: "muted" }, "has no entry for this type"),
      found && found.doc ? h("p", {}, found.doc) : null);
  }
}
