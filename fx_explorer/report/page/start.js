// Everything begins here, when the page has been read: first the linked view, then what is further down.

function whenIdle(work) {
  if (window.requestIdleCallback) window.requestIdleCallback(work, { timeout: 1000 });
  else setTimeout(work, 50);
}

async function start() {
  let view = null;
  if (document.querySelector(".panes")) {
    const made = unpackedData("data").then((data) => new View(data));
    // A click that comes before the view is there waits for it.
    document.getElementById("second")?.addEventListener("click", async () => (await made).toggleSecond());
    view = await made;
  }
  new Keys(view);
  new Search(view);
  whenIdle(async () => {
    if (document.querySelector("#drawing .canvas")) {
      new Drawing(await unpackedData("drawn"), view);
    }
    await showPictures();
  });
}

start();
