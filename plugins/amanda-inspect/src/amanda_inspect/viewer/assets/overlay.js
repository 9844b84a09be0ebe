"use strict";
// Overlays: a number or a class for ops, as colors of boxes; groups have the sum, the
// largest, or the classes in them.

const PALETTE = 8; // colors of classes in page.css

class Overlay {
  constructor(model, data) {
    this.model = model;
    this.data = data;
    this.isNumber = data.kind === "number";
    this.values = new Map(Object.entries(data.values).map(([i, v]) => [Number(i), v]));
    if (this.isNumber) this.addUp();
    else this.count();
  }

  addUp() {
    const total = new Float64Array(this.model.size), known = new Uint8Array(this.model.size);
    const most = this.data.aggregate === "max";
    for (let i = this.model.size - 1; i >= 0; i--) {
      if (this.values.has(i)) {
        total[i] = most ? Math.max(total[i], this.values.get(i)) : this.values.get(i);
        known[i] = 1; // the number of an op has that of its bodies
      }
      const p = this.model.parent[i];
      if (p < 0 || !known[i]) continue;
      total[p] = most && known[p] ? Math.max(total[p], total[i]) : most ? total[i] : total[p] + total[i];
      known[p] = 1;
    }
    this.totals = total;
    this.known = known;
  }

  count() {
    this.counts = Array.from({ length: this.model.size }, () => null);
    for (let i = this.model.size - 1; i > 0; i--) {
      if (this.values.has(i)) this.add(i, this.values.get(i), 1);
      const own = this.counts[i];
      if (own) for (const [name, n] of own) this.add(this.model.parent[i], name, n);
    }
  }

  add(i, name, n) {
    if (!this.counts[i]) this.counts[i] = new Map();
    this.counts[i].set(name, (this.counts[i].get(name) || 0) + n);
  }

  color(name) {
    const at = this.data.classes.indexOf(name);
    const fixed = { added: "good", removed: "bad", changed: "warn", gap: "bad", refused: "bad" }[name];
    return `var(--${fixed || `class-${at % PALETTE}`})`;
  }

  // The text of a node, or "" where the overlay has nothing for it.
  text(i) {
    if (this.isNumber) return this.known[i] ? this.format(this.totals[i]) : "";
    const counts = this.counts[i];
    if (!counts) return "";
    if (this.values.has(i) && !this.model.isGroup(i)) return this.values.get(i);
    return Array.from(counts, ([name, n]) => `${n} ${name}`).join(", ");
  }

  note(i) { return (this.data.notes || {})[i] || ""; }

  format(value) {
    const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString();
    return this.data.unit ? `${text} ${this.data.unit}` : text;
  }

  // Color the drawn nodes of a picture.
  paint(picture) {
    const shown = Array.from(picture.boxes.keys()).filter((i) => i && !picture.boxes.get(i).open);
    const most = this.isNumber ? Math.max(...shown.map((i) => (this.known[i] ? this.totals[i] : 0)), 1e-300) : 0;
    for (const i of shown) {
      const box = picture.boxes.get(i), element = picture.elements.get(i);
      const text = this.text(i);
      if (!text) { element.classList.add("pale"); continue; }
      const rect = element.querySelector(".box");
      if (this.isNumber) {
        const part = Math.sqrt(Math.max(0, this.totals[i]) / most) * 85;
        rect.style.fill = `color-mix(in oklab, var(--heat) ${part.toFixed(1)}%, var(--surface))`;
        element.classList.toggle("hot", part > 35);
      } else this.paintClasses(i, box, rect, element);
      element.querySelector("title").append(`\n${this.data.name}: ${text}`);
    }
  }

  paintClasses(i, box, rect, element) {
    const counts = Array.from(this.counts[i]);
    if (counts.length === 1 && (!this.model.isGroup(i) || counts[0][1] >= this.model.leaves[i])) {
      rect.style.fill = `color-mix(in oklab, ${this.color(counts[0][0])} 45%, var(--surface))`;
      return;
    }
    const all = Math.max(this.model.leaves[i], counts.reduce((sum, [, n]) => sum + n, 0));
    let x = box.x + 8;
    for (const [name, n] of counts) { // parts of a group, in proportion, at least visible
      const width = Math.max(4, (box.width - 16) * (n / all));
      const part = svg("rect", { x, y: box.y + box.height - 5, width, height: 3.5, rx: 1 });
      part.style.fill = this.color(name);
      element.append(part);
      x += width;
    }
  }

  // The ops with the largest numbers, or those of the rarest classes.
  ranking(limit) {
    const rows = Array.from(this.values);
    if (this.isNumber) rows.sort((a, b) => b[1] - a[1]);
    return rows.slice(0, limit);
  }
}
