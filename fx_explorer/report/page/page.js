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
