// Everything begins here, when the page has been read: first the linked view, then what is further down.

async function start() {
  let view = null;
  if (document.querySelector(".panes")) view = new View(JSON.parse(await (await unpacked("data")).text()));
  if (document.querySelector("#drawing .canvas")) {
    window.requestIdleCallback(async () => {
      new Drawing(JSON.parse(await (await unpacked("drawn")).text()), view);
    }, { timeout: 1000 });
  }
}

start();
