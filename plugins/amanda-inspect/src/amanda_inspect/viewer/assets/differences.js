"use strict";
// The differences of two models: tables with a filter, whose rows show their nodes.

class Differences {
  constructor(tables, place, handlers) {
    this.tables = tables;
    this.place = place;
    this.handlers = handlers;
    this.filter = h("input", { type: "search", placeholder: "Filter differences", "aria-label": "Filter differences",
      spellcheck: "false", oninput: () => this.apply() });
    this.shown = h("span", { class: "muted", role: "status" });
    const parts = tables.map((table, k) => this.part(table, k));
    place.append(h("div", { class: "bar" }, h("strong", {}, tables.length ? "Differences" : "No differences"),
      tables.length ? this.filter : null, this.shown), ...parts);
  }

  part(table, k) {
    const columns = table.columns.map((name, c) => c).filter((c) => c === 0 || table.rows.some((row) => row[c + 1] !== ""));
    const head = h("tr", {}, columns.map((c) => h("th", { scope: "col" }, table.columns[c])));
    const rows = table.rows.map((row) => this.row(row, columns));
    const more = table.count - table.rows.length;
    return h("details", { open: k < 4 || table.count < 50 ? "" : false },
      h("summary", {}, `${table.title} (${table.count.toLocaleString("en")})`),
      h("table", {}, h("thead", {}, head), h("tbody", {}, rows)),
      more > 0 ? h("p", { class: "muted" }, `${more.toLocaleString("en")} more, which amanda diff --all lists`) : null);
  }

  row([node, ...cells], columns) {
    const link = node === null ? cells[0]
      : h("button", { class: "link", onclick: () => this.handlers.select(node, true) }, cells[0]);
    return h("tr", { "data-node": node }, columns.map((c) => h("td", {}, c ? cells[c] : link)));
  }

  apply() {
    const words = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, all = 0;
    for (const row of this.place.querySelectorAll("tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
      all += 1;
    }
    this.shown.textContent = words.length ? `${shown} of ${all}` : "";
  }
}
