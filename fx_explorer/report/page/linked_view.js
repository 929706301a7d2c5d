// The linked view: source, graphs and code side by side. Which lines belong together comes with the page.

class View {
  constructor(data) {
    this.data = data;
    this.selected = null;
    this.pointed = null;
    this.listeners = []; // called when another line is selected
    this.panes = [...document.querySelectorAll(".pane")].map((element) => new Pane(element, this));
    for (const link of document.querySelectorAll("a.place")) {
      link.addEventListener("click", () => {
        this.goTo({ number: Number(link.dataset.text), line: Number(link.dataset.line) });
      });
    }
    if (data.start) this.goTo({ number: data.start[0], line: data.start[1] });
    this.loadLinks();
  }

  // The lines of a text, when it is first shown.
  async load(number) {
    const text = this.data.texts[number];
    if (text.isLoading) return;
    text.isLoading = true;
    text.lines = await unpackedData(`lines-${number}`);
    for (const pane of this.panes) if (pane.number === number) pane.draw();
  }

  // Which lines belong together: much more than the first lines, which are there before.
  async loadLinks() {
    await new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve, 0)); });
    Object.assign(this.data, await unpackedData("links"));
    this.answered = null;
    this.hasLinks = true;
    if (this.selected) this.choose(this.selected);
  }

  get shownLine() { return this.pointed || this.selected; }

  // The lines of each text that belong to a place: number of a text → runs of lines.
  links(place) {
    if (!place) return {};
    const key = `${place.number}:${place.line}`;
    if (this.answered !== key) { this.answered = key; this.answer = this.withLevels(place); }
    return this.answer;
  }

  stored(number, line) {
    const answer = this.data.links ? this.data.links[number][line] : -1;
    return answer === undefined || answer < 0 ? {} : this.data.linked[answer];
  }

  // A line of PTX or SASS belongs to lines of its kernel, and so to all that these belong to.
  withLevels(place) {
    const { texts } = this.data;
    const text = texts[place.number];
    const lines = text.sources ? text.sources[place.line] || [] : null;
    const links = lines ? {} : { ...this.stored(place.number, place.line) };
    for (const line of lines || []) {
      for (const [number, runs] of Object.entries(this.stored(text.kernel, line))) {
        if (Number(number) !== text.kernel) links[number] = [...(links[number] || []), ...runs];
      }
    }
    if (lines && lines.length) links[text.kernel] = lines.map((line) => [line, line]);
    for (const [number, level] of texts.entries()) {
      if (!level.sources) continue;
      const wanted = [...(links[level.kernel] || [])];
      if (!lines && place.number === level.kernel) wanted.push([place.line, place.line]);
      const runs = wanted.length ? this.linesBelow(number, level, wanted) : [];
      if (runs.length) links[number] = runs;
    }
    return links;
  }

  linesBelow(number, level, wanted) {
    const runs = [];
    for (const [line, sources] of Object.entries(level.sources)) {
      const isBelow = sources.some((source) => wanted.some(([from, to]) => from <= source && source <= to));
      if (isBelow) runs.push([Number(line), Number(line)]);
    }
    return runs;
  }

  linkedLines(number) { return this.links(this.shownLine)[number] || []; }

  draw() { for (const pane of this.panes) pane.draw(); }

  point(place) {
    const before = this.pointed;
    if (before && place && before.number === place.number && before.line === place.line) return;
    if (!before && !place) return;
    this.pointed = place;
    this.draw();
  }

  choose(place) {
    this.selected = place;
    this.pointed = null;
    const links = this.links(place);
    this.isTurning = true; // panes are drawn once, when all have turned
    turnPanes(this, place, links);
    for (const pane of this.panes) {
      const lines = links[pane.number];
      if (lines && pane.number !== place.number && !isWhole(pane.text, lines)) pane.reveal(lines[0][0], true);
    }
    this.isTurning = false;
    this.draw();
    for (const listener of this.listeners) listener();
  }

  // What a pane says of the line that is pointed at or selected.
  status(pane, linked) {
    const place = this.shownLine;
    if (linked.length) return isWhole(pane.text, linked) ? "linked as a whole" : `${lineCount(linked)} linked`;
    if (!place || !this.hasLinks || place.number === pane.number) return "";
    const { texts } = this.data;
    const others = Object.keys(this.links(place)).map((number) => texts[number]).filter((text) => pane.accepts(text));
    if (!others.length) return "nothing linked";
    const ofVersion = others.filter((text) => this.compilationOf(text) === this.compilationOf(pane.text));
    const directions = new Set(ofVersion.map((text) => this.directionOf(text)));
    const isAcross = directions.size === 1 && !directions.has(this.directionOf(pane.text));
    const [direction] = directions;
    if (isAcross && direction) return `only in the ${direction}`;
    const where = ofVersion.length ? "this text" : versionName(pane.text) || pane.text.title;
    return `not in ${where}${this.pointed ? "; click to turn" : ""}`;
  }

  // A text below a kernel is of the kernel's compilation.
  compilationOf(text) { return (this.data.texts[text.kernel] || text).compilation; }

  directionOf(text) { return (this.data.texts[text.kernel] || text).direction || ""; }

  get graphPanes() { return this.panes.filter((pane) => pane.name === "graph" && !pane.element.hidden); }

  get isBoth() { return this.graphPanes.length > 1; }

  // Shows the backward graph beside the forward graph, or the graph alone again.
  toggleSecond() {
    const button = document.getElementById("second");
    if (!button) return;
    const second = this.panes.find((pane) => pane.isSecond);
    const first = this.panes.find((pane) => pane.name === "graph");
    second.element.hidden = !second.element.hidden;
    button.setAttribute("aria-pressed", String(this.isBoth));
    first.keepTo(this.isBoth ? "forward" : "");
    second.keepTo(this.isBoth ? "backward" : "");
    if (this.isBoth) this.showBoth();
    for (const listener of this.listeners) listener();
  }

  showBoth() {
    const graphs = this.data.texts.filter((text) => text.pane === "graph");
    const [{ text: shown }] = this.graphPanes;
    const compilations = graphs.filter((text) => text.direction === "backward").map((text) => text.compilation);
    const compilation = compilations.includes(shown.compilation) ? shown.compilation : compilations[0];
    const links = this.links(this.selected);
    for (const pane of this.graphPanes) turnGraph(this, pane, compilation, "", links);
    if (this.selected) this.choose(this.selected);
    else this.draw();
  }

  // The other panes, when a text was chosen in one.
  follow(pane) {
    if (pane.name !== "graph") return;
    const links = this.links(this.selected);
    const others = this.graphPanes.filter((other) => other !== pane);
    for (const other of others) turnGraph(this, other, pane.text.compilation, "", links);
    const isOfSource = this.selected && this.data.texts[this.selected.number].pane === "source";
    if (isOfSource && links[pane.number]) this.choose(this.selected); // else it would turn back
  }

  letGo() {
    this.selected = null;
    this.pointed = null;
    this.draw();
    for (const listener of this.listeners) listener();
  }

  goTo(place) {
    if (place.number < 0) return;
    const showing = this.panes.find((one) => one.number === place.number && !one.element.hidden);
    const text = this.data.texts[place.number];
    const isOffered = this.panes.some((one) => !one.element.hidden && one.accepts(text));
    if (!isOffered && this.isBoth) this.toggleSecond();
    const pane = showing || this.panes.find((one) => !one.element.hidden && one.accepts(text));
    pane.show(place.number);
    this.choose(place);
    pane.reveal(place.line, true);
  }
}
