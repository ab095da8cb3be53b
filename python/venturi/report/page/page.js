"use strict";
// Draws the figures when they come into sight. Their colours are the page's custom properties, so that a theme needs no
// new drawing; a new width does.
const venturi = (() => {
  const { figures, config } = JSON.parse(document.getElementById("figure-documents").textContent);
  const root = document.documentElement;
  const hidden = figures.map(() => new Set());
  const views = new Map();
  const onWidth = [];
  const tip = document.body.appendChild(element("div", { class: "tip", hidden: true }));

  function showTip(event, lines) {
    tip.hidden = !lines;
    if (!lines) return;
    tip.textContent = lines;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
    tip.style.left = `${Math.max(6, left)}px`;
    tip.style.top = `${Math.max(6, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 6))}px`;
  }
  addEventListener("scroll", () => showTip(null, ""), { passive: true });
  // Draws into `plot`. Expressions are interpreted, for the page's policy lets no text become code.
  function draw(plot, spec) {
    if (views.has(plot)) views.get(plot).then((before) => before.finalize());
    const found = vegaEmbed(plot, spec, {
      mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false, config,
      tooltip: (handler, event, item, value) => showTip(event, value ? String(value) : ""),
    });
    views.set(plot, found);
    // A point that stands for a cell opens it.
    found.then(({ view }) => view.addEventListener("click", (event, item) => {
      if (item && item.datum && item.datum.link) openCell(item.datum.link);
    }));
    return found;
  }
  function drawOne(plot) {
    const at = Number(plot.dataset.figure);
    const params = [{ name: "hidden", value: [...hidden[at]] }];
    draw(plot, { ...figures[at].panels[Number(plot.dataset.panel)], params, width: plot.parentElement.clientWidth });
    root.dataset.drawn = "true";
  }
  const plots = () => [...document.querySelectorAll(".plot[data-figure]")];
  function redraw() {
    for (const plot of plots()) if (views.has(plot)) drawOne(plot);
    for (const call of onWidth) call();
  }
  function drawAll() {
    for (const plot of plots()) drawOne(plot);
    for (const call of onWidth) call();
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const names = hidden[Number(button.dataset.figure)];
      const name = button.dataset.name;
      const shown = names.has(name);
      if (shown) names.delete(name); else names.add(name);
      button.setAttribute("aria-pressed", String(shown));
      for (const plot of plots()) {
        if (plot.dataset.figure === button.dataset.figure && views.has(plot)) views.get(plot).then(({ view }) => view.signal("hidden", [...names]).run());
      }
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
  switcher.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  dark.addEventListener("change", name);
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
    if (!views.has(plot)) drawOne(plot);
    requestAnimationFrame(work);
  }
  const watcher = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) { watcher.unobserve(entry.target); waiting.push(entry.target); }
    if (waiting.length && !at_work) { at_work = true; requestAnimationFrame(work); }
  }, { rootMargin: "600px 0px" });
  for (const plot of plots()) watcher.observe(plot);
  name();
  return { draw, showTip, onWidth, element, openCell };

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
