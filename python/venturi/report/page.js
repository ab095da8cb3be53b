"use strict";
// Draws the figures and keeps their colours those of the page. Colours in the documents are roles ("$c0", "$c0/0.2");
// the page's own custom properties give them, so that there is one palette.
(() => {
  const figures = JSON.parse(document.getElementById("figure-documents").textContent);
  const root = document.documentElement;
  const role = /^\$([a-z0-9]+)(?:\/([0-9.]+))?$/;
  const hidden = figures.map(() => new Set());

  function resolver() {
    const style = getComputedStyle(root);
    return (text) => {
      const found = role.exec(text);
      if (!found) return text;
      const colour = style.getPropertyValue("--" + found[1]).trim();
      if (!colour) return text;
      if (found[2] === undefined) return colour;
      const part = (at) => parseInt(colour.slice(at, at + 2), 16);
      return `rgba(${part(1)},${part(3)},${part(5)},${found[2]})`;
    };
  }
  function coloured(node, resolve) {
    if (typeof node === "string") return resolve(node);
    if (Array.isArray(node)) return node.map((item) => coloured(item, resolve));
    if (node && typeof node === "object") {
      return Object.fromEntries(Object.entries(node).map(([key, item]) => [key, coloured(item, resolve)]));
    }
    return node;
  }
  function draw() {
    const resolve = resolver();
    for (const plot of document.querySelectorAll(".plot")) {
      const at = Number(plot.dataset.figure);
      const found = coloured(figures[at].panels[Number(plot.dataset.panel)], resolve);
      for (const trace of found.data) if (hidden[at].has(trace.name)) trace.visible = false;
      found.layout.width = plot.parentElement.clientWidth;
      Plotly.react(plot, found.data, found.layout, { displaylogo: false, displayModeBar: false, scrollZoom: false });
    }
    root.dataset.drawn = String(document.querySelectorAll(".plot .main-svg").length > 0);
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const names = hidden[Number(button.dataset.figure)];
      const name = button.dataset.name;
      const shown = names.has(name);
      if (shown) names.delete(name); else names.add(name);
      button.setAttribute("aria-pressed", String(shown));
      draw();
    });
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const switcher = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => { switcher.textContent = isDark() ? "Light" : "Dark"; };
  switcher.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); draw(); });
  dark.addEventListener("change", () => { name(); draw(); });
  // Paper is white and narrower than the window; the figures are drawn again for it, and afterwards for the window.
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    document.body.classList.add("printing");
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    draw();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    document.body.classList.remove("printing");
    draw();
  });
  // Width only: phones change the height while scrolling.
  let width = 0;
  new ResizeObserver((seen) => {
    const now = Math.round(seen[0].contentRect.width);
    if (now !== width && width !== 0) requestAnimationFrame(draw);
    width = now;
  }).observe(document.querySelector("main"));
  name();
  draw();
})();
