// Tables of cells: sorted by a click on a head, filtered by words, opened by a click on a row. A long table keeps only
// the rows in sight in the page.
const cellDocuments = JSON.parse(document.getElementById("cell-documents").textContent);
(() => {
  const { element } = venturi;
  const units = { k: 1e3, M: 1e6, G: 1e9, ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10, kB: 1e3, MB: 1e6, GB: 1e9 };
  // "2,390..2,470" and "5/5" by their first number, "10M" and "3 s" by what they stand for.
  function key(text) {
    const found = /^(-?[\d,]*\.?\d+)\s*(ns|µs|ms|min|kB|MB|GB|[kMGs])?(?![a-z])/.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) * (units[found[2]] || 1) : null;
  }
  function compare(a, b, up) {
    const missing = (text) => text === "–" || text === "";
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const x = key(a), y = key(b);
    const found = x !== null && y !== null ? x - y : a.localeCompare(b);
    return up ? found : -found;
  }

  class Table {
    constructor(box) {
      this.box = box;
      this.scroller = box.querySelector(".tablebox");
      this.body = box.querySelector("tbody");
      this.heads = [...box.querySelectorAll("thead th")];
      this.names = this.heads.map((head) => head.querySelector("span").textContent.toLowerCase());
      const long = cellDocuments.tables[box.dataset.table];
      this.long = long;
      if (long) {
        const count = long.cells.length;
        this.rows = Array.from({ length: count }, (_, i) => ({
          texts: long.columns.map((column) => column[i]), cell: long.cells[i],
        }));
        const only = box.querySelector(".only");
        if (only) only.remove();
        this.scroller.classList.add("long");
      } else {
        this.rows = [...this.body.rows].map((row) => ({
          texts: [...row.cells].map((cell) => cell.textContent), cell: Number(row.dataset.cell), row,
        }));
      }
      for (const row of this.rows) row.words = row.texts.join(" ").toLowerCase();
      this.shown = this.rows;
      this.sorted = null;
      this.tools();
      this.heads.forEach((head, at) => {
        const span = head.querySelector("span");
        const button = element("button", { type: "button", class: "sort" }, span.textContent);
        span.replaceWith(button);
        button.addEventListener("click", () => this.sort(at));
      });
      this.body.addEventListener("click", (event) => {
        const row = event.target.closest("tr[data-cell]");
        if (row && !String(getSelection())) venturi.openCell(cellDocuments.cells[row.dataset.cell].name);
      });
      if (long) {
        this.scroller.addEventListener("scroll", () => this.window(), { passive: true });
        new ResizeObserver(() => this.window()).observe(this.scroller);
      }
      this.render();
    }
    tools() {
      if (this.rows.length < 8) return;
      this.input = element("input", { type: "search", placeholder: "filter: words, or streams=4", spellcheck: "false",
        "aria-label": "filter the cells of this table" });
      this.count = element("span", { class: "quiet", "aria-live": "polite" });
      this.box.prepend(element("div", { class: "tools" }, this.input, this.count));
      this.input.addEventListener("input", () => this.filter(this.input.value));
    }
    filter(text) {
      const words = text.toLowerCase().split(/\s+(?![^"]*"\s*$)/).map((w) => w.replaceAll('"', "")).filter(Boolean);
      const tests = words.map((word) => {
        const [, name, sign, value] = /^([^=<>]+)(=|<|>)(.+)$/.exec(word) || [];
        const at = name ? this.names.indexOf(name) : -1;
        if (at < 0) return (row) => row.words.includes(word);
        const wanted = key(value);
        return (row) => {
          const own = row.texts[at].toLowerCase();
          if (sign === "=" && (own === value || own.startsWith("! " + value))) return true;
          const number = key(row.texts[at]);
          if (wanted === null || number === null) return sign === "=" && own.includes(value);
          return sign === "=" ? number === wanted : sign === "<" ? number < wanted : number > wanted;
        };
      });
      this.shown = this.rows.filter((row) => tests.every((test) => test(row)));
      this.order();
      this.render(true);
    }
    sort(at) {
      const up = this.sorted && this.sorted.at === at ? !this.sorted.up : this.heads[at].classList.contains("t");
      this.sorted = { at, up };
      this.heads.forEach((head, i) => {
        if (i === at) head.setAttribute("aria-sort", up ? "ascending" : "descending"); else head.removeAttribute("aria-sort");
      });
      this.order();
      this.render(true);
    }
    order() {
      if (!this.sorted) return;
      const { at, up } = this.sorted;
      this.shown = [...this.shown].sort((a, b) => compare(a.texts[at], b.texts[at], up));
    }
    made(item) {
      if (!item.row) {
        const cells = item.texts.map((text, i) => {
          let kind = this.long.kinds[i];
          if (this.names[i] === "fail" && text !== "0") kind = "bad";
          if (text.startsWith("! ")) kind += " flagged";
          return element("td", { class: kind || null }, text);
        });
        item.row = element("tr", { "data-cell": item.cell }, cells);
      }
      item.row.classList.toggle("chosen", document.body.dataset.cell === String(item.cell));
      return item.row;
    }
    render(fromTop) {
      if (this.count) {
        const all = this.rows.length.toLocaleString("en");
        this.count.textContent = this.shown.length === this.rows.length ? `${all} cells`
          : `${this.shown.length.toLocaleString("en")} of ${all} cells`;
      }
      if (this.long) {
        if (fromTop) this.scroller.scrollTop = 0;
        this.first = -1;
        this.window();
        return;
      }
      this.body.replaceChildren(...this.shown.map((item) => this.made(item)));
    }
    // Only the rows in sight, with empty ones of the others' height above and below.
    window() {
      if (!this.height) this.measure();
      if (!this.height) return;
      const seen = Math.ceil(this.scroller.clientHeight / this.height) + 1;
      const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - 12) & ~7;
      const last = Math.min(this.shown.length, first + seen + 24);
      if (first === this.first && last === this.last) return;
      this.first = first;
      this.last = last;
      const space = (rows) => {
        const row = element("tr", { class: "space", "aria-hidden": "true" });
        row.style.height = rows * this.height + "px";
        return row;
      };
      const rows = this.shown.slice(first, last).map((item) => this.made(item));
      this.body.replaceChildren(space(first), ...rows, space(this.shown.length - last));
    }
    // Columns get the width of their longest text and keep it: they neither jump while other rows come into sight, nor
    // have to be measured again.
    measure() {
      const longest = this.long.columns.map((column) => column.reduce((a, b) => (b.length > a.length ? b : a), ""));
      const probe = element("tr", {}, longest.map((text, i) => element("td", { class: this.long.kinds[i] || null }, text)));
      this.body.replaceChildren(probe);
      const height = probe.getBoundingClientRect().height;
      if (!height) return;
      this.height = height;
      const widths = this.heads.map((head) => Math.ceil(head.getBoundingClientRect().width) + 1);
      this.heads.forEach((head, i) => { head.style.width = widths[i] + "px"; });
      const table = this.body.parentElement;
      table.style.width = widths.reduce((a, b) => a + b, 0) + "px";
      table.style.minWidth = "100%";
      table.style.tableLayout = "fixed";
    }
  }
  const tables = [...document.querySelectorAll(".cells")].map((box) => new Table(box));
  for (const link of document.querySelectorAll("a[data-filter]")) {
    link.addEventListener("click", () => {
      for (const table of tables) {
        if (!table.input) continue;
        table.input.value = `verdict="${link.dataset.filter.toLowerCase()}"`;
        table.filter(table.input.value);
      }
    });
  }
  for (const link of document.querySelectorAll("a[data-cell]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      venturi.openCell(cellDocuments.cells[link.dataset.cell].name);
    });
  }
})();
