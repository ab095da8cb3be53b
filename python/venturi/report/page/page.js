"use strict";
// Draws the figures when they come into sight, and keeps their colours those of the page. Colours in the documents are
// roles ("$c0", "$c0/0.2"); the page's own custom properties give them, so that there is one palette.
const venturi = (() => {
  const figures = JSON.parse(document.getElementById("figure-documents").textContent);
  const root = document.documentElement;
  const role = /^\$([a-z0-9]+)(?:\/([0-9.]+))?$/;
  const hidden = figures.map(() => new Set());
  const options = { displaylogo: false, displayModeBar: false, scrollZoom: false, responsive: false };
  const drawn = new Set();
  const onTheme = [];

  function resolver() {
    const style = getComputedStyle(root);
    const known = new Map();
    return (text) => {
      if (text.charCodeAt(0) !== 36) return text;
      if (known.has(text)) return known.get(text);
      const found = role.exec(text);
      const colour = found ? style.getPropertyValue("--" + found[1]).trim() : "";
      let out = text;
      if (colour) {
        const part = (at) => parseInt(colour.slice(at, at + 2), 16);
        out = found[2] === undefined ? colour : `rgba(${part(1)},${part(3)},${part(5)},${found[2]})`;
      }
      known.set(text, out);
      return out;
    };
  }
  function coloured(node, resolve) {
    if (typeof node === "string") return resolve(node);
    if (Array.isArray(node)) {
      // Data are numbers; only what may hold a colour is walked through.
      return node.length && typeof node[0] === "number" ? node : node.map((item) => coloured(item, resolve));
    }
    if (node && typeof node === "object") {
      return Object.fromEntries(Object.entries(node).map(([key, item]) => [key, coloured(item, resolve)]));
    }
    return node;
  }
  function drawOne(plot, resolve) {
    const at = Number(plot.dataset.figure);
    const found = coloured(figures[at].panels[Number(plot.dataset.panel)], resolve);
    for (const trace of found.data) if (hidden[at].has(trace.name)) trace.visible = false;
    found.layout.width = plot.parentElement.clientWidth;
    Plotly.react(plot, found.data, found.layout, options);
    if (!drawn.has(plot)) {
      drawn.add(plot);
      // A point that stands for a cell opens it.
      if (plot.on) plot.on("plotly_click", (event) => {
        const point = event.points[0];
        const names = point.data.meta;
        if (Array.isArray(names) && names[point.pointNumber]) openCell(names[point.pointNumber]);
      });
    }
    root.dataset.drawn = "true";
  }
  const plots = () => [...document.querySelectorAll(".plot[data-figure]")];
  function redraw() {
    const resolve = resolver();
    for (const plot of plots()) if (drawn.has(plot)) drawOne(plot, resolve);
    for (const call of onTheme) call();
  }
  function drawAll() {
    const resolve = resolver();
    for (const plot of plots()) drawOne(plot, resolve);
    for (const call of onTheme) call();
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const names = hidden[Number(button.dataset.figure)];
      const name = button.dataset.name;
      const shown = names.has(name);
      if (shown) names.delete(name); else names.add(name);
      button.setAttribute("aria-pressed", String(shown));
      redraw();
    });
  }
  // Commands can be copied. A page from the disk may not write to the clipboard by itself: then its text is selected.
  for (const block of document.querySelectorAll("pre, ul.next code")) {
    const inline = block.tagName === "CODE";
    const button = element("button", { type: "button", class: inline ? "copy" : null, "aria-label": "copy this command" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    if (inline) { block.after(" ", button); continue; }
    const box = element("div", { class: "copied" });
    block.replaceWith(box);
    box.append(block, button);
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const switcher = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => { switcher.textContent = isDark() ? "Light" : "Dark"; };
  switcher.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); redraw(); });
  dark.addEventListener("change", () => { name(); redraw(); });
  // Paper is white and narrower than the window; the figures are drawn again for it, and afterwards for the window.
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    document.body.classList.add("printing");
    for (const folded of document.querySelectorAll("#failed details, #environment details")) folded.open = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    document.body.classList.remove("printing");
    redraw();
  });
  // Width only: phones change the height while scrolling.
  let width = 0;
  new ResizeObserver((seen) => {
    const now = Math.round(seen[0].contentRect.width);
    if (now !== width && width !== 0) requestAnimationFrame(redraw);
    width = now;
  }).observe(document.querySelector("main"));

  // One figure a frame: drawing several at once would hold up the scrolling that brought them into sight.
  const waiting = [];
  let at_work = false;
  function work() {
    const plot = waiting.shift();
    if (!plot) { at_work = false; return; }
    if (!drawn.has(plot)) drawOne(plot, resolver());
    requestAnimationFrame(work);
  }
  const watcher = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) { watcher.unobserve(entry.target); waiting.push(entry.target); }
    if (waiting.length && !at_work) { at_work = true; requestAnimationFrame(work); }
  }, { rootMargin: "600px 0px" });
  for (const plot of plots()) watcher.observe(plot);
  name();
  return { resolver, coloured, options, onTheme, element, openCell };

  // Also where the address names that cell already, and nothing in it would change.
  function openCell(name) {
    const wanted = "#cell=" + encodeURIComponent(name);
    if (location.hash === wanted) dispatchEvent(new Event("hashchange")); else location.hash = wanted;
  }

  // An element with attributes and children; texts become text nodes, never HTML.
  function element(tag, attributes, ...children) {
    const svg = ["svg", "g", "rect", "path", "text", "title", "line"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }
})();
