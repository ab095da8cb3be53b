// The pipeline of a cell as a picture: boxes in the data's order, filled as far as their workers were busy. Side by side
// where there is room, one below the other on a phone.
function pipelinePicture(found, width, colours) {
  const { element } = venturi;
  const share = (part) => (part > 0 && part < 0.005 ? "<1 %" : `${Math.round(100 * part)} %`);
  const css = (role) => {
    const [name, opacity] = (colours[role] || "$other").slice(1).split("/");
    return { colour: `var(--${name})`, opacity: opacity || 1 };
  };
  const flat = width >= 620;
  const stages = found.sides.reduce((n, side) => n + side.work.length, 0);
  const gap = flat ? 22 : 10;
  const wire = flat ? 74 : 40;
  const inset = 12;
  const free = width - 2 - found.sides.length * 2 * inset - (found.sides.length - 1) * wire - (stages - found.sides.length) * gap;
  const box = flat ? { w: Math.min(132, free / stages), h: 78 } : { w: width - 2 - 2 * inset, h: 40 };
  const svg = element("svg", { class: "pipeline", role: "img", "aria-label": found.words });
  svg.append(element("title", {}, found.words));
  const words = (x, y, text, extra) => element("text", { x, y, ...extra }, text);
  const arrow = (x0, y0, x1, y1, dashed) => {
    const across = y0 === y1;
    const head = across ? `M${x1 - 5} ${y1 - 3.5}L${x1} ${y1}L${x1 - 5} ${y1 + 3.5}` : `M${x1 - 3.5} ${y1 - 5}L${x1} ${y1}L${x1 + 3.5} ${y1 - 5}`;
    return element("path", { d: `M${x0} ${y0}L${x1} ${y1}${head}`, class: dashed ? "arrow wire" : "arrow" });
  };
  let x = 1, y = 1, bottom = 0;
  found.sides.forEach((side, at) => {
    const inner = flat ? side.work.length * box.w + (side.work.length - 1) * gap : box.w;
    const head = flat ? 50 : 34; // over a box stands whether it is the narrowest; on a phone that is in it
    const top = y + head;
    const workHeight = flat ? box.h : side.work.length * (box.h + gap) - gap;
    const waits = side.waiting.map(([text, part]) => [text, part]);
    const idle = waits.reduce((sum, [, part]) => sum + part, 0);
    const lines = [];
    if (side.besides.length) lines.push("besides: " + side.besides.map(([name, part]) => `${name} ${share(part)}`).join(", "));
    if (waits.length) lines.push(`waits ${share(idle)}`);
    for (const [text, part] of waits) lines.push(`   ${text} ${share(part)}`);
    const height = head + workHeight + 20 + 30 + lines.length * 16;
    const full = inner + 2 * inset;
    svg.append(element("rect", { x, y, width: full, height, rx: 8, class: "side" }));
    const workers = side.workers ? ` · ${side.workers} worker${side.workers === 1 ? "" : "s"}` : "";
    svg.append(words(x + inset, y + 20, side.end + workers, { class: "end" }));
    let bx = x + inset, by = top;
    side.work.forEach(([stage, part], i) => {
      const { colour } = css(stage);
      const narrow = found.narrowest && found.narrowest[0] === side.end && found.narrowest[1] === stage;
      if (i) svg.append(flat ? arrow(bx - gap + 3, by + box.h / 2, bx - 3, by + box.h / 2) : arrow(bx + box.w / 2, by - gap, bx + box.w / 2, by - 1));
      const filled = Math.min(1, part);
      svg.append(flat
        ? element("rect", { x: bx, y: by + box.h * (1 - filled), width: box.w, height: box.h * filled, fill: colour, opacity: .38 })
        : element("rect", { x: bx, y: by, width: box.w * filled, height: box.h, fill: colour, opacity: .38 }));
      svg.append(element("rect", { x: bx, y: by, width: box.w, height: box.h, rx: 4, class: narrow ? "stage narrow" : "stage", stroke: colour }));
      if (flat) {
        const small = box.w < 66 ? "small" : "";
        svg.append(words(bx + box.w / 2, by + 30, stage, { class: "name " + small, "text-anchor": "middle" }));
        svg.append(words(bx + box.w / 2, by + 53, share(part), { class: "part", "text-anchor": "middle" }));
        if (narrow) svg.append(words(bx + box.w / 2, by - 6, "narrowest", { class: "mark", "text-anchor": "middle" }));
        bx += box.w + gap;
      } else {
        svg.append(words(bx + 10, by + 25, stage + (narrow ? " · narrowest" : ""), { class: narrow ? "name strong" : "name" }));
        svg.append(words(bx + box.w - 10, by + 25, share(part), { class: "part", "text-anchor": "end" }));
        by += box.h + gap;
      }
    });
    // What the workers waited for: a bar of its own, hatched, so that it is not taken for work.
    let wy = top + workHeight + 18, wx = x + inset;
    svg.append(element("rect", { x: wx, y: wy, width: inner, height: 12, rx: 3, class: "waitbox" }));
    side.waiting.forEach(([text, part, stage]) => {
      const { colour } = css(stage);
      const drawn = element("rect", { x: wx, y: wy, width: Math.max(0, inner * part), height: 12, fill: colour });
      drawn.append(element("title", {}, `waits ${text}: ${share(part)}`));
      svg.append(drawn);
      wx += inner * part;
    });
    lines.forEach((line, i) => svg.append(words(x + inset, wy + 30 + i * 16, line, { class: "wait", "xml:space": "preserve" })));
    bottom = Math.max(bottom, y + height);
    if (flat) {
      x += full;
      if (at + 1 < found.sides.length) {
        svg.append(arrow(x + 8, top + box.h / 2, x + wire - 8, top + box.h / 2, true));
        svg.append(words(x + wire / 2, top + box.h / 2 - 9, "wire", { class: "wait", "text-anchor": "middle" }));
        x += wire;
      }
    } else if (at + 1 < found.sides.length) {
      svg.append(arrow(width / 2, y + height + 4, width / 2, y + height + wire - 4, true));
      svg.append(words(width / 2 + 10, y + height + wire / 2 + 4, "wire", { class: "wait" }));
      y += height + wire;
    }
  });
  if (found.missing) {
    bottom += 22;
    svg.append(words(2, bottom - 5, `The ${found.missing} did not account for its stages.`, { class: "wait" }));
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${bottom + 2}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", bottom + 2);
  return svg;
}
