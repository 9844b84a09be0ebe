"use strict";
// The data of the page: nodes in preorder, so that a subtree is a range of numbers.

const KIND = {
  GROUP: 0, OP: 1, CONSTANT: 2, PARAMETER: 3, RESULT: 4, BODY: 5, GRAPH: 6, FUNCTION: 7,
  REMOVED: 8,
};
const CONTROL = -2;

class Model {
  constructor(data) {
    this.data = data;
    this.size = data.kind.length;
    this.kind = Uint8Array.from(data.kind);
    this.parent = Int32Array.from(data.parent);
    this.end = Int32Array.from(data.end);
    this.showsConstants = false;
    this.expanded = new Uint8Array(this.size);
    this.expanded[0] = 1;
    this.countLeaves();
    this.linkUsers();
  }

  // leaves[i]: ops and ports below i; constants[i]: constants below i
  countLeaves() {
    this.leaves = new Int32Array(this.size);
    this.constants = new Int32Array(this.size);
    for (let i = this.size - 1; i >= 0; i--) {
      const own = this.kind[i];
      if (own === KIND.CONSTANT) this.constants[i] += 1;
      else if (own !== KIND.GROUP && own !== KIND.BODY) this.leaves[i] += 1;
      if (i) {
        this.leaves[this.parent[i]] += this.leaves[i];
        this.constants[this.parent[i]] += this.constants[i];
      }
    }
  }

  // The readers of each node, as ranges of one array.
  linkUsers() {
    const inputs = this.data.inputs, starts = new Int32Array(this.size + 1);
    for (const row of inputs)
      for (let k = 0; k < row.length; k += 3) if (row[k] >= 0) starts[row[k] + 1]++;
    for (let i = 0; i < this.size; i++) starts[i + 1] += starts[i];
    const fill = starts.slice(), users = new Int32Array(starts[this.size]);
    inputs.forEach((row, i) => {
      for (let k = 0; k < row.length; k += 3) if (row[k] >= 0) users[fill[row[k]]++] = i;
    });
    this.userStarts = starts;
    this.users = users;
  }

  text(number) { return this.data.strings[number]; }
  label(i) { return this.text(this.data.label[i]); }
  type(i) { return this.text(this.data.type[i]); }
  name(i) { return this.text(this.data.name[i]) || this.label(i); }
  isGroup(i) { return this.end[i] > i + 1; }
  isOpen(i) { return this.isGroup(i) && this.expanded[i] === 1; }
  contains(outer, i) { return outer <= i && i < this.end[outer]; }

  isHidden(i) {
    if (this.showsConstants) return false;
    return this.kind[i] === KIND.CONSTANT || (this.leaves[i] === 0 && this.constants[i] > 0);
  }

  children(i) {
    const found = [];
    for (let c = i + 1; c < this.end[i]; c = this.end[c]) if (!this.isHidden(c)) found.push(c);
    return found;
  }

  ancestors(i) {
    const found = [];
    for (let p = this.parent[i]; p >= 0; p = this.parent[p]) found.push(p);
    return found;
  }

  usersOf(i) {
    return Array.from(new Set(this.users.subarray(this.userStarts[i], this.userStarts[i + 1])));
  }

  sourcesOf(i) {
    const row = this.data.inputs[i], found = new Set();
    for (let k = 0; k < row.length; k += 3) if (row[k] >= 0) found.add(row[k]);
    return Array.from(found);
  }

  // The constants that an op reads, with the input: [node, name of the input].
  constantsOf(i) {
    const row = this.data.inputs[i], found = [];
    for (let k = 0; k < row.length; k += 3)
      if (row[k] >= 0 && this.kind[row[k]] === KIND.CONSTANT)
        found.push([row[k], this.text(row[k + 2])]);
    return found;
  }

  outputType(i, port) {
    return this.text(this.data.outputs[i][2 * port + 1] || 0);
  }

  // What a reader calls a node: its name, or its type if it has none.
  title(i) {
    if (this.kind[i] === KIND.GROUP || this.kind[i] === KIND.BODY || this.kind[i] === KIND.FUNCTION)
      return this.label(i);
    return this.name(i) || this.type(i) || "graph";
  }

  path(i) {
    return this.ancestors(i).reverse().slice(1).map((p) => this.title(p));
  }

  // The nodes whose name, type or attributes have a text, in order.
  search(query, limit) {
    const wanted = query.trim().toLowerCase();
    if (!wanted) return { found: [], total: 0 };
    if (!this.lower) this.lower = this.data.strings.map((text) => text.toLowerCase());
    const hits = this.lower.map((text) => text.includes(wanted));
    const { name, label, type, attributes } = this.data, exact = [], rest = [];
    let total = 0;
    for (let i = 1; i < this.size; i++) {
      const named = hits[name[i]] || hits[label[i]] || hits[type[i]];
      if (!named && !attributes[i].some((number) => hits[number])) continue;
      total++;
      const whole = this.lower[name[i]] === wanted || this.lower[type[i]] === wanted;
      const list = whole ? exact : rest;
      if (list.length < limit) list.push(i);
    }
    return { found: exact.concat(rest).slice(0, limit), total };
  }
}
