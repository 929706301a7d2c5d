// The pictures of the sections, as the app writes them. Each stands in a shadow tree of its own, so that
// its style and its ids are its own, too; its style is given by script, as the page's policy asks.

// Below this width the letters of a picture cannot be read: it is scrolled sideways.
const LEAST_PICTURE_PX = 900;

function showPicture(host, { svg, style }) {
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${style} svg { max-width: 100%; min-width: var(--least, 0); height: auto; display: block; }`);
  const root = host.attachShadow({ mode: "open" });
  root.adoptedStyleSheets = [sheet];
  root.append(picture);
  for (const element of root.querySelectorAll("[data-style]")) element.style.cssText = element.dataset.style;
}

async function showPictures() {
  const hosts = [...document.querySelectorAll(".picture")];
  if (!hosts.length) return;
  const pictures = await unpackedData("pictures");
  // A flame chart has thousands of blocks: each picture is made when it is about to be seen.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      showPicture(entry.target, pictures[entry.target.dataset.picture]);
    }
  }, { rootMargin: "800px" });
  for (const host of hosts) {
    // Its height is kept free, so that a link to a section below leads there.
    const { svg } = pictures[host.dataset.picture];
    const [, width, height] = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(svg) || [];
    if (width) {
      host.style.aspectRatio = `${width} / ${height}`;
      host.style.maxWidth = `${width}px`;
      const least = Math.min(width, LEAST_PICTURE_PX);
      host.style.setProperty("--least", `${least}px`);
      host.style.minHeight = `${(least * height) / width}px`;
    }
    watcher.observe(host);
  }
  addEventListener("beforeprint", () => {
    for (const host of hosts) if (!host.shadowRoot) showPicture(host, pictures[host.dataset.picture]);
  });
}
