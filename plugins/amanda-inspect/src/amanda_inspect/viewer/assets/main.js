"use strict";
// The page: search, selection, overlays, keys.

const SEARCH_ROWS = 200;
const FIRST_VIEW = 32; // nodes up to which groups are open in the beginning

class Page {
  constructor(data) {
    this.model = new Model(data);
    this.overlays = data.overlays.map((each) => new Overlay(this.model, each));
    this.overlay = null;
    this.selected = 0;
    this.past = [];
    const handlers = {
      select: (i, moves) => this.select(i, moves),
      toggle: (i) => this.toggle(i),
      follow: (edge) => this.select(this.selected === edge.source ? edge.target : edge.source, true),
      search: (text) => { this.input.value = text; this.search(); this.input.focus(); },
    };
    this.picture = new Picture(this.model, document.getElementById("graph"), handlers);
    this.panel = new Panel(this.model, document.getElementById("panel"), handlers);
    this.input = document.getElementById("search");
    this.results = document.getElementById("results");
    this.showDifferences(data.differences, handlers);
    this.openFirst();
    this.bind();
    this.chooseOverlay(this.overlays.length ? 0 : -1);
    this.picture.fit();
  }

  showDifferences(tables, handlers) {
    if (!tables) return;
    this.differences = document.getElementById("differences");
    new Differences(tables, this.differences, handlers);
    const button = document.getElementById("differences-button");
    button.hidden = this.differences.hidden = false;
    button.addEventListener("click", () => this.toggleDifferences());
  }

  toggleDifferences() {
    if (!this.differences) return;
    this.differences.hidden = !this.differences.hidden;
    document.getElementById("differences-button").setAttribute("aria-expanded", String(!this.differences.hidden));
  }

  // Open groups, one depth after the other, while the picture stays small.
  openFirst() {
    const { model } = this;
    let shown = 0, groups = [0];
    while (groups.length) {
      const inside = groups.flatMap((group) => model.children(group));
      const alone = groups.length === 1 && inside.length < 2 * FIRST_VIEW;
      if (groups[0] && !alone && shown + inside.length > FIRST_VIEW) return;
      for (const group of groups) model.expanded[group] = 1;
      shown += inside.length;
      groups = inside.filter((i) => model.isGroup(i) && model.kind[i] !== KIND.FUNCTION);
    }
  }

  bind() {
    const on = (id, name, action) => document.getElementById(id).addEventListener(name, action);
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => this.searchKey(event));
    on("fit", "click", () => this.picture.overview());
    on("zoom-in", "click", () => this.picture.zoom(1.3));
    on("zoom-out", "click", () => this.picture.zoom(1 / 1.3));
    on("fold-all", "click", () => this.foldAll());
    on("back", "click", () => this.back());
    on("theme", "click", () => this.switchTheme());
    on("constants", "change", (event) => {
      this.model.showsConstants = event.target.checked;
      this.refresh(this.selected || undefined);
    });
    this.bindOverlays();
    document.addEventListener("keydown", (event) => this.key(event));
  }

  bindOverlays() {
    const choice = document.getElementById("overlay");
    choice.append(h("option", { value: -1 }, "none"),
      ...this.overlays.map((each, k) => h("option", { value: k }, each.data.name)));
    document.getElementById("overlay-choice").hidden = !this.overlays.length;
    choice.addEventListener("change", () => this.chooseOverlay(Number(choice.value)));
  }

  chooseOverlay(k) {
    this.overlay = this.overlays[k] || null;
    document.getElementById("overlay").value = k;
    this.refresh();
    this.panel.show(this.selected, this.overlay);
    this.showLegend();
  }

  showLegend() {
    const place = document.getElementById("legend"), overlay = this.overlay;
    place.hidden = !overlay;
    if (!overlay) return;
    const parts = overlay.isNumber
      ? [h("span", {}, "0"), h("span", { class: "ramp" }), h("span", {}, "largest shown")]
      : overlay.data.classes.map((name) => {
        const mark = h("span", { class: "swatch" });
        mark.style.background = overlay.color(name);
        return h("span", { class: "entry" }, mark, name);
      });
    place.replaceChildren(h("strong", {}, overlay.data.name), ...parts);
  }

  refresh(anchor) {
    this.picture.refresh(anchor);
    if (this.overlay) this.overlay.paint(this.picture);
    this.picture.highlight(this.selected);
  }

  // Select a node; `moves` opens the groups around it and shows it.
  select(i, moves) {
    if (i && i !== this.selected) this.past.push(this.selected);
    this.selected = i;
    if (moves && i) this.reveal(i);
    this.picture.highlight(i);
    this.panel.show(i, this.overlay);
    document.getElementById("back").disabled = !this.past.length;
    const element = this.picture.elements.get(i);
    if (element && moves) element.focus({ preventScroll: true });
  }

  reveal(i) {
    const { model } = this;
    let changed = false;
    if (model.isHidden(i)) {
      model.showsConstants = document.getElementById("constants").checked = true;
      changed = true;
    }
    for (const p of model.ancestors(i)) {
      if (!model.expanded[p]) changed = true;
      model.expanded[p] = 1;
    }
    if (changed) this.refresh();
    this.picture.center(i);
  }

  back() {
    const last = this.past.pop();
    if (last === undefined) return;
    this.selected = last;
    this.select(last, last > 0);
  }

  toggle(i) {
    if (!i || !this.model.isGroup(i)) return;
    this.model.expanded[i] = this.model.expanded[i] ? 0 : 1;
    if (!this.model.expanded[i] && this.model.contains(i, this.selected)) this.selected = i;
    this.refresh(i);
    this.panel.show(this.selected, this.overlay);
  }

  foldAll() {
    this.model.expanded.fill(0);
    this.openFirst();
    this.selected = 0;
    this.refresh();
    this.picture.fit();
    this.panel.show(0, this.overlay);
  }

  // -- search ---------------------------------------------------------------------------

  search() {
    const { found, total } = this.model.search(this.input.value, SEARCH_ROWS);
    this.found = found;
    this.marked = 0;
    this.results.hidden = !this.input.value.trim();
    const rows = found.map((i, k) => h("li", { role: "option", "data-node": i, "aria-selected": k === 0 ? "true" : "false",
      onclick: () => this.choose(i) }, h("span", {}, this.model.title(i)),
    h("span", { class: "muted" }, [this.model.type(i), this.model.path(i).join(" / ")].filter(Boolean).join(" · "))));
    const more = total > found.length ? [h("li", { class: "muted" }, `${total - found.length} more`)] : [];
    this.results.replaceChildren(...rows, ...more, ...(total ? [] : [h("li", { class: "muted" }, "nothing has this name, type or attribute")]));
  }

  choose(i) {
    this.results.hidden = true;
    this.select(i, true);
  }

  searchKey(event) {
    const count = this.found ? this.found.length : 0;
    if (event.key === "Escape") { this.results.hidden = true; this.input.blur(); return; }
    if (event.key === "Enter" && count) { this.choose(this.found[this.marked]); return; }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !count) return;
    event.preventDefault();
    this.marked = (this.marked + step + count) % count;
    Array.from(this.results.children).forEach((row, k) => {
      if (!row.hasAttribute("role")) return;
      row.setAttribute("aria-selected", String(k === this.marked));
      if (k === this.marked) row.scrollIntoView({ block: "nearest" });
    });
  }

  // -- keys -----------------------------------------------------------------------------

  key(event) {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      "/": () => this.input.focus(), f: () => this.picture.overview(), "+": () => this.picture.zoom(1.3),
      "=": () => this.picture.zoom(1.3), "-": () => this.picture.zoom(1 / 1.3), Backspace: () => this.back(),
      Escape: () => this.select(0, false), e: () => this.toggle(this.selected),
      d: () => this.toggleDifferences(),
      ArrowUp: () => this.step(this.model.sourcesOf(this.selected)),
      ArrowDown: () => this.step(this.model.usersOf(this.selected)),
    };
    const onButton = event.target.matches("button, summary");
    if (!onButton) actions.Enter = actions[" "] = actions.e;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  step(candidates) {
    const shown = candidates.filter((i) => !this.model.isHidden(i));
    if (!this.selected) { const first = this.model.children(0)[0]; if (first) this.select(first, true); } else if (shown.length) this.select(shown[0], true);
  }

  switchTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }
}

const page = new Page(JSON.parse(document.getElementById("graph-data").textContent));
requestAnimationFrame(() => requestAnimationFrame(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}));
