"use strict";
// What the whole page needs: its parts are unpacked, the session is saved, colours change. Nothing is
// computed here: links, costs and every sentence come with the page.

async function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).blob();
}

async function unpackedData(id) { return JSON.parse(await (await unpacked(id)).text()); }

// the session and the colours

document.getElementById("save").addEventListener("click", async (event) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await unpacked("session"));
  link.download = event.target.dataset.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
});

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

// A link to a section: what lies between is laid out only when it comes near, and then moves the section.
// So the page goes there again for half a second, unless the reader scrolls.

let jump = 0;

function goToSection(hash, frames, number) {
  if (number !== jump) return;
  document.getElementById(hash.slice(1)).scrollIntoView();
  if (frames > 0) requestAnimationFrame(() => goToSection(hash, frames - 1, number));
}

document.querySelector("nav").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  jump += 1;
  goToSection(link.hash, 30, jump);
});
for (const kind of ["wheel", "touchstart", "mousedown", "keydown"]) {
  addEventListener(kind, () => { jump += 1; }, { passive: true, capture: true });
}
