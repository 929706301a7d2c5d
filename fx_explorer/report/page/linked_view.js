// The linked view: source, graphs and code side by side. Which lines belong together comes with the page.

const LINE_PX = 18;
const AHEAD = 20; // lines that are drawn above and below those on screen

class Pane {
  constructor(element, view) {
    this.element = element;
    this.view = view;
    this.name = element.dataset.pane;
    this.isSecond = element.classList.contains("second");
    this.lines = element.querySelector(".lines");
    this.select = element.querySelector("select");
    this.count = element.querySelector(".count");
    this.sheet = document.createElement("div");
    this.sheet.className = "sheet";
    this.lines.append(this.sheet);
    this.number = -1;
    for (const [number, text] of view.data.texts.entries()) {
      if (text.pane === this.name) this.select.add(new Option(titled(text), number));
    }
    this.select.addEventListener("change", () => this.show(Number(this.select.value)));
    this.lines.addEventListener("scroll", () => this.draw());
    this.lines.addEventListener("mousemove", (event) => this.point(event));
    this.lines.addEventListener("mouseleave", () => view.point(null));
    this.lines.addEventListener("click", (event) => this.click(event));
    this.lines.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.lines);
    if (this.select.options.length) this.show(this.first());
  }

  // What a pane begins with: its first text; of PTX and SASS, the last of the slowest kernel's.
  first() {
    const numbers = [...this.select.options].map((option) => Number(option.value));
    if (this.name !== "level") return numbers[0];
    const weights = numbers.map((number) => this.view.data.texts[number].weight);
    return numbers[weights.lastIndexOf(Math.max(...weights))];
  }

  get text() { return this.view.data.texts[this.number]; }

  show(number) {
    if (this.number === number) return;
    this.number = number;
    this.hasMarks = Object.keys(this.text.marks).length > 0;
    this.select.value = String(number);
    this.select.title = titled(this.text);
    this.sheet.style.height = `${this.text.count * LINE_PX}px`;
    this.lines.scrollTop = 0;
    this.draw();
  }

  draw() {
    if (this.number < 0 || this.view.isTurning) return;
    const { lines, count } = this.text;
    this.sheet.style.height = `${count * LINE_PX}px`;
    if (!lines) { this.view.load(this.number); return; } // drawn again when they are there
    const first = Math.max(0, Math.floor(this.lines.scrollTop / LINE_PX) - AHEAD);
    const last = Math.min(count, first + Math.ceil(this.lines.clientHeight / LINE_PX) + 2 * AHEAD);
    const linked = this.view.linkedLines(this.number);
    const selected = this.view.selected;
    if (this.drawn !== `${this.number}:${first}:${last}`) {
      this.drawn = `${this.number}:${first}:${last}`;
      this.sheet.replaceChildren(...Array.from({ length: last - first }, (_, at) => this.row(first + at)));
    }
    // The rows stay when the selection changes: a text that is being marked for copying stays so.
    this.lines.removeAttribute("aria-activedescendant");
    for (const row of this.sheet.children) {
      const line = Number(row.dataset.line);
      const isSelected = Boolean(selected) && selected.number === this.number && selected.line === line;
      row.classList.toggle("linked", linked.some(([from, to]) => from <= line && line <= to));
      row.classList.toggle("selected", isSelected);
      row.setAttribute("aria-selected", String(isSelected));
      if (isSelected) this.lines.setAttribute("aria-activedescendant", row.id);
    }
    const size = linked.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    this.count.textContent = size ? `${size} linked` : "";
  }

  row(line) {
    const row = document.createElement("div");
    row.className = "row";
    row.id = `${this.name}-${line}`;
    row.dataset.line = String(line);
    row.setAttribute("role", "option");
    row.setAttribute("aria-setsize", String(this.text.count));
    row.setAttribute("aria-posinset", String(line + 1));
    row.style.top = `${line * LINE_PX}px`;
    const event = this.text.events[line];
    if (event) { row.classList.add("event"); row.title = event; }
    const mark = this.hasMarks ? `<span class="mark">${this.text.marks[line] || ""}</span>` : "";
    row.innerHTML = `<span class="no">${event ? "✗ " : ""}${line + 1}</span>${mark}${this.text.lines[line]}`;
    return row;
  }

  lineAt(event) {
    const row = event.target.closest(".row");
    return row ? { number: this.number, line: Number(row.dataset.line) } : null;
  }

  point(event) { if (!event.buttons) this.view.point(this.lineAt(event)); }

  click(event) {
    const line = this.lineAt(event);
    if (line && getSelection().isCollapsed) this.view.choose(line);
  }

  key(event) {
    const all = this.text ? this.text.count : 0;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -all, End: all }[event.key];
    if (event.key === "Escape") this.view.letGo();
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const selected = this.view.selected;
    const from = selected && selected.number === this.number ? selected.line : this.top - step;
    const line = Math.min(this.text.count - 1, Math.max(0, from + step));
    this.view.choose({ number: this.number, line });
    this.reveal(line, false);
  }

  get top() { return Math.floor(this.lines.scrollTop / LINE_PX); }

  reveal(line, centred) {
    const height = this.lines.clientHeight;
    const top = line * LINE_PX;
    const isShown = top >= this.lines.scrollTop && top + LINE_PX <= this.lines.scrollTop + height;
    if (!isShown) this.lines.scrollTop = centred ? top - height / 3 : top - height / 2;
    this.draw();
  }
}

function titled(text) {
  return text.weight >= 0.005 ? `${text.title} · ${Math.round(100 * text.weight)} % of time` : text.title;
}

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
    const button = document.getElementById("second");
    if (button) button.addEventListener("click", () => this.toggleSecond());
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
    if (this.selected) this.choose(this.selected);
    this.hasLinks = true;
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
    for (const pane of this.panes) {
      if (pane.number === place.number) continue;
      if (!links[pane.number] && !pane.isSecond && this.data.texts[place.number].pane !== pane.name) {
        const other = this.bestText(pane.name, links);
        if (other >= 0) pane.show(other);
      }
      const lines = links[pane.number];
      if (lines) pane.reveal(lines[0][0], true);
    }
    this.isTurning = false;
    this.draw();
    for (const listener of this.listeners) listener();
  }

  // The text of a pane that has links: the kernel that takes most of the time, else the first.
  bestText(name, links) {
    let best = -1;
    for (const number of Object.keys(links).map(Number)) {
      const text = this.data.texts[number];
      if (text.pane === name && (best < 0 || text.weight > this.data.texts[best].weight)) best = number;
    }
    return best;
  }

  // Shows the backward graph beside the forward graph, or the graph alone again.
  toggleSecond() {
    const button = document.getElementById("second");
    if (!button) return;
    const second = this.panes.find((pane) => pane.isSecond);
    second.element.hidden = !second.element.hidden;
    button.setAttribute("aria-pressed", String(!second.element.hidden));
    if (!second.element.hidden) this.showBoth(this.panes.find((pane) => pane.name === "graph"), second);
    for (const listener of this.listeners) listener();
  }

  showBoth(first, second) {
    const { texts } = this.data;
    const graphs = [...texts.keys()].filter((number) => texts[number].pane === "graph");
    const shown = first.text;
    const stages = shown.stage === "post_grad" ? ["post_grad"] : ["forward", "backward", "post_grad"];
    const find = (direction) => graphs.find((number) => texts[number].direction === direction && texts[number].compilation === shown.compilation && stages.includes(texts[number].stage))
      ?? graphs.find((number) => texts[number].direction === direction);
    const forward = find("forward");
    if (forward !== undefined) first.show(forward);
    second.show(find("backward"));
    if (this.selected) this.choose(this.selected);
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
    const pane = showing || this.panes.find((one) => one.name === this.data.texts[place.number].pane);
    pane.show(place.number);
    this.choose(place);
    pane.reveal(place.line, true);
  }
}
