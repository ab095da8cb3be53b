// One cell: its verdict, figures, limits, pipeline and timeline, for the cell that the menu, a row or the address names.
(() => {
  const { element } = venturi;
  const view = document.getElementById("cell-view");
  if (!view) return;
  const menu = document.getElementById("cell-menu");
  const { cells, timelines, colours } = cellDocuments;
  const byName = new Map(cells.map((cell, i) => [cell.name, i]));
  let chosen = Number(menu.value);
  let plot = null;

  const percent = (part) => (part > 0 && part < 0.005 ? "<1 %" : `${Math.round(100 * part)} %`);
  const command = (parts) => parts.map(([text, code]) => (code ? element("code", {}, text) : text));
  function verdict(found) {
    if (!found) return null;
    const role = (colours.verdicts[found.kind] || "$other").slice(1);
    const dot = element("i", { class: "dot", style: `background:var(--${role})` });
    const out = element("div", { class: "said" },
      element("h3", {}, dot, found.flagged ? element("b", { class: "flag" }, "! ") : null, found.title,
        element("span", { class: "sure" }, `${found.confidence} confidence`)),
      found.lines.map((line) => element("p", {}, sentence(line))));
    if (found.flagged) out.append(element("p", { class: "flag" }, "The load generator or its schedule set this figure: it is no measure of the target."));
    if (found.next.length) out.append(element("h4", {}, "next"), element("ul", { class: "next" }, found.next.map((step) => element("li", {}, command(step)))));
    if (found.evidence.length) {
      out.append(element("details", { open: true }, element("summary", {}, "evidence"),
        element("ul", {}, found.evidence.map((text) => element("li", {}, text)))));
    }
    return out;
  }
  // As it begins a paragraph; a number and its percent sign stay on one line.
  function sentence(text) {
    return (text[0].toUpperCase() + text.slice(1)).replace(/[.]?$/, ".").replaceAll(" %", "\u00a0%");
  }
  function limits(found) {
    if (!found.length) return element("p", { class: "quiet" }, "No limit was measured that applies to this cell.");
    return element("div", { class: "limits" }, element("h4", {}, "limits measured in the same run, and the share reached"),
      found.map(([name, rate, part, lowest, more]) => element("div", { class: lowest ? "limit lowest" : "limit" },
        element("span", {}, name), element("span", { class: "bar2" }, element("i", { style: `width:${Math.min(100, 100 * (part || 0))}%` })),
        element("span", { class: "n" }, part === null ? "–" : percent(part)), element("span", { class: "rate" }, rate + (lowest ? ", the lowest" : "") + (more ? `, ${more}` : "")))));
  }
  function legend(items) {
    return element("ul", { class: "legend" }, items.map(([name, colour, mark, dash]) => {
      const [role] = colour.slice(1).split("/");
      const shape = mark === "area" ? element("rect", { width: 14, height: 10, x: 3, rx: 2, fill: `var(--${role})` })
        : element("path", { d: "M0 5h20", stroke: `var(--${role})`, "stroke-width": 2.4, "stroke-dasharray": dash === "dash" ? "5 3" : null });
      return element("li", {}, element("svg", { viewBox: "0 0 20 10", "aria-hidden": "true" }, shape), name);
    }));
  }
  function loaders(found) {
    const side = (text) => (text ? "t" : null);
    const head = element("tr", {}, found.heads.map(([name, unit, text]) => element("th", { class: side(text), scope: "col" }, name, element("small", {}, unit))));
    const rows = found.rows.map((row) => element("tr", {}, row.map((text, i) => element("td", { class: side(found.heads[i][2]) }, text))));
    const table = element("div", { class: "tablebox", tabindex: 0, role: "region", "aria-label": "loaders of this cell" },
      element("table", {}, element("thead", {}, head), element("tbody", {}, rows)));
    return found.more ? [table, element("p", { class: "quiet" }, `${found.more} more between the slowest and the fastest.`)] : [table];
  }
  function draw() {
    const cell = cells[chosen];
    const time = timelines[chosen];
    const picture = element("div", { class: "picture" });
    const text = element("div", { class: "facts2" }, cell.figures.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value))));
    const left = element("div", {}, verdict(cell.verdict));
    const right = element("div", {}, limits(cell.limits));
    const card = element("div", { class: "cellcard" },
      element("h3", { class: "which" }, cell.label), element("p", { class: "quiet" }, cell.name),
      element("dl", { class: "figures" }, [...text.children]), element("div", { class: "two" }, left, right));
    if (cell.loaders) card.append(element("h4", {}, "loaders"), ...loaders(cell.loaders));
    if (cell.pipeline) card.append(element("h4", {}, "pipeline: share of the time of each end's workers"), picture);
    plot = null;
    if (time) {
      plot = element("div", { class: "plot", role: "img", "aria-label": time.words, style: `min-height:${time.height}px` });
      card.append(element("h4", {}, "timeline of its median trial"), legend(time.legend), plot, element("p", { class: "quiet" }, time.caption));
    } else {
      card.append(element("p", { class: "quiet" }, Object.keys(timelines).length
        ? "This file holds the timelines of some cells only; for this one: "
        : "No samples were taken in its trials. With samples: ",
      element("code", {}, Object.keys(timelines).length
        ? `venturi report RUN --format svg --figure timeline --cell ${cell.name}` : "venturi run ... --sample-interval 100ms")));
    }
    if (cell.cost) card.append(element("p", { class: "quiet" }, cell.cost[0].toUpperCase() + cell.cost.slice(1) + "."));
    view.replaceChildren(card);
    if (cell.pipeline) picture.append(pipelinePicture(cell.pipeline, Math.floor(picture.clientWidth), colours.stages));
    if (plot) inSight.observe(plot);
    // Many panels take longer than a frame: better while nothing moves than when scrolling brings them into sight.
    const own = plot;
    if (own && window.requestIdleCallback) requestIdleCallback(() => { if (own === plot && !own.firstChild) drawTimeline(); });
  }
  function drawTimeline() {
    const time = timelines[chosen];
    if (!plot || !time) return;
    const own = plot;
    const width = own.clientWidth - 66; // beside the labels of the y axes
    const spec = { ...time.spec, vconcat: time.spec.vconcat.map((panel) => ({ ...panel, width })) };
    venturi.draw(own, spec).then(({ view }) => readAll(own, view, time));
  }
  // A pointer over any panel reads all of them at that moment.
  function readAll(own, view, time) {
    const at = (moment) => view.signal("at", moment).run();
    own.onpointermove = (event) => {
      const panel = own.querySelector(".mark-group.role-scope .background");
      const moment = panel ? view.scale("x").invert(event.clientX - panel.getBoundingClientRect().left) : -1;
      const lines = moment < 0 ? [] : time.spec.vconcat.flatMap((panel) => panel.data.values.map(({ name, x, y }) => {
        let i = x.findIndex((other) => other >= moment);
        if (i < 0) i = x.length - 1;
        if (i > 0 && moment - x[i - 1] < x[i] - moment) i -= 1;
        return [panel.title, name, y[i]];
      })).filter(([, , value]) => value !== null && value !== undefined);
      at(moment);
      venturi.showTip(event, lines.length ? [`${moment.toFixed(2)} s`, ...lines.map(([title, name, value]) => `${title}: ${name} ${value.toLocaleString("en", { maximumSignificantDigits: 4 })}`)].join("\n") : "");
    };
    own.onpointerleave = (event) => { at(-1); venturi.showTip(event, ""); };
  }
  const inSight = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) { inSight.unobserve(entry.target); if (entry.target === plot && !plot.firstChild) drawTimeline(); }
  }, { rootMargin: "400px 0px" });

  function choose(at, scroll) {
    if (!(at >= 0 && at < cells.length)) return;
    chosen = at;
    document.body.dataset.cell = String(at);
    for (const row of document.querySelectorAll("tr.chosen")) row.classList.remove("chosen");
    for (const row of document.querySelectorAll(`tr[data-cell="${at}"]`)) row.classList.add("chosen");
    if (![...menu.options].some((option) => Number(option.value) === at)) {
      menu.append(element("option", { value: at }, cells[at].label));
    }
    menu.value = String(at);
    draw();
    if (scroll) document.getElementById("cell").scrollIntoView({ behavior: "auto", block: "start" });
  }
  const named = () => byName.get(decodeURIComponent((/^#cell=(.+)$/.exec(location.hash) || [])[1] || ""));
  addEventListener("hashchange", () => { const at = named(); if (at !== undefined) choose(at, true); });
  // The address follows, so that it can be passed on, without a step back for every cell that was looked at.
  function move(at) {
    choose(at);
    history.replaceState(null, "", "#cell=" + encodeURIComponent(cells[chosen].name));
  }
  menu.addEventListener("change", () => move(Number(menu.value)));
  const step = (by) => move((chosen + by + cells.length) % cells.length);
  document.getElementById("cell-before").addEventListener("click", () => step(-1));
  document.getElementById("cell-after").addEventListener("click", () => step(1));
  // In another width: a timeline that was there is so at once.
  venturi.onWidth.push(() => {
    const drawn = plot && plot.firstChild;
    draw();
    if (drawn) drawTimeline();
  });
  const at = named();
  choose(at === undefined ? chosen : at, at !== undefined);
})();
