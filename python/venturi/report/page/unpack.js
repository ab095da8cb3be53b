"use strict";
// The other half of packed.py.
(async () => {
  const packed = document.getElementById("packed");
  if (!window.DecompressionStream) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "Figures, and the rows of long tables, need a browser of 2023 or later.";
    packed.before(note);
    return;
  }
  const { letters, bytes } = packed.dataset;
  const digits = new Uint8Array(128);
  for (let digit = 0; digit < letters.length; digit++) digits[letters.charCodeAt(digit)] = digit;
  const text = packed.textContent;
  const decoded = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let from = 0, to = 0; from < text.length; from += 5, to += 4) {
    let word = 0;
    for (let at = from; at < from + 5; at++) word = word * 85 + digits[text.charCodeAt(at)];
    decoded.setUint32(to, word);
  }
  const compressed = new Blob([new Uint8Array(decoded.buffer, 0, Number(bytes))]);
  const whole = compressed.stream().pipeThrough(new DecompressionStream("deflate"));
  const { documents, scripts } = JSON.parse(await new Response(whole).text());
  const append = (text, properties) => {
    document.body.append(Object.assign(document.createElement("script"), properties, { textContent: text }));
  };
  for (const [id, found] of Object.entries(documents)) append(JSON.stringify(found), { id, type: "application/json" });
  for (const script of scripts) append(script, {});
  packed.remove();
})();
