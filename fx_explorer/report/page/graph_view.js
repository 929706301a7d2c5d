// The drawn graph: boxes of modules that open and close. Which operations are in which box and their
// colours come with the page.

const MOST_OPENED = 400; // boxes that "open all" opens

class Drawing {
  constructor(data, view) {
    this.data = data;
    this.texts = data.texts;
    this.view = view;
    this.section = document.getElementById("drawing");
    this.canvas = this.section.querySelector(".canvas");
    this.about = this.section.querySelector(".about");
    this.key = this.section.querySelector(".key");
    this.select = this.section.querySelector("select.graph");
    this.ways = this.section.querySelector("select.way");
    this.found = this.section.querySelector(".found");
    this.scale = 1;
    for (const [number, graph] of data.graphs.entries()) this.select.add(new Option(graph.title, number));
    this.select.addEventListener("change", () => this.show(Number(this.select.value)));
    this.ways.addEventListener("change", () => { this.wayName = this.ways.value; this.recolour(); });
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key_(event));
    this.canvas.addEventListener("focusin", (event) => this.focus(event.target.closest("[role=treeitem]")));
    this.canvas.addEventListener("mouseover", (event) => this.point(event.target.closest("[role=treeitem]")));
    const search = this.section.querySelector("input");
    search.addEventListener("input", () => this.find(search.value, 0));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); this.find(search.value, event.shiftKey ? -1 : 1); }
    });
    for (const [name, action] of [["larger", () => this.zoom(1.25)], ["smaller", () => this.zoom(0.8)], ["unfold", () => this.openAll()], ["fold", () => this.foldAll()]]) {
      this.section.querySelector(`button.${name}`).addEventListener("click", action);
    }
    this.show(data.start);
    if (view) view.listeners.push(() => this.follow());
  }

  get way() { return this.graph.ways[this.wayName]; }

  styleOf(slot) {
    const { way } = this;
    return way && way.of[slot] >= 0 ? way.key[way.of[slot]][0] : "";
  }

  show(number) {
    this.graph = this.data.graphs[number];
    this.select.value = String(number);
    this.open = new Set([""]);
    this.layer = new Map();
    this.slotOfLine = null;
    this.matches = null;
    const names = { kernel: "kernel", dtype: "dtype", region: "region", cost: "cost" };
    const known = Object.keys(names).filter((name) => this.graph.ways[name]);
    this.ways.replaceChildren(...known.map((name) => new Option(names[name], name)));
    if (!known.includes(this.wayName)) this.wayName = known[0] || "";
    this.ways.value = this.wayName;
    this.ways.disabled = known.length === 0;
    this.root = null;
    // A module that has most of the operations begins open.
    let part = this.rootPart();
    while (part) {
      this.open.add(part.key);
      part = part.parts.find((inner) => inner.isBox && !inner.isPile && inner.inside.parts.length <= 60 && 2 * inner.operations > part.operations);
    }
    this.draw();
    this.aboutPart(null);
  }

  rootPart() {
    const part = new Part(this, "", [[""], "", this.graph.root], 0, 0, null);
    return part;
  }

  draw() {
    const focused = this.canvas.contains(document.activeElement) && document.activeElement.drawnPart ? document.activeElement.drawnPart.key : null;
    this.drawn = [];
    this.root = this.rootPart();
    this.root.measure();
    this.root.x = 0;
    this.root.y = -HEAD_PX;
    const width = this.root.width + 8;
    const height = this.root.height - HEAD_PX + 8;
    const svg = svgElement("svg", { viewBox: `0 0 ${width.toFixed(0)} ${height.toFixed(0)}`, role: "tree", "aria-label": `${this.graph.title}, drawn` });
    const marker = svgElement("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" });
    marker.append(svgElement("path", { d: "M0 0 L6 3 L0 6 z", class: "head" }));
    const definitions = svgElement("defs", {});
    definitions.append(marker);
    svg.append(definitions);
    this.root.draw(svg);
    this.drawn.pop(); // the graph itself is no item
    const outer = svg.lastChild;
    for (const name of ["role", "tabindex", "aria-level", "aria-label", "aria-expanded"]) outer.removeAttribute(name);
    outer.setAttribute("class", "whole");
    for (const element of [...outer.children]) if (element.matches(".frame, .name")) element.remove();
    svg.setAttribute("width", (width * this.scale).toFixed(0));
    svg.setAttribute("height", (height * this.scale).toFixed(0));
    this.canvas.replaceChildren(svg);
    this.items = [...svg.querySelectorAll("[role=treeitem]")];
    const again = focused === null ? null : this.items.find((item) => item.drawnPart.key === focused);
    if (this.items.length) (again || this.items[0]).setAttribute("tabindex", "0");
    if (again) again.focus({ preventScroll: true });
    this.drawKey();
    this.follow();
  }

  // Colours what is drawn by something else: nothing changes its place.
  recolour() {
    for (const item of this.items) {
      const part = item.drawnPart;
      if (!part.isBox) part.colour(item);
      else if (!part.isOpen) part.drawShares(item);
    }
    this.drawKey();
  }

  drawKey() {
    const { way } = this;
    const entries = [];
    for (const at of way ? way.shown : []) {
      const [style, text, count] = way.key[at];
      const entry = document.createElement("li");
      const sample = document.createElement("span");
      sample.className = `sample ${style}`;
      entry.append(sample, ` ${this.texts[text]} `, Object.assign(document.createElement("span"), { className: "muted", textContent: String(count) }));
      entries.push(entry);
    }
    const more = way ? way.key.length - way.shown.length : 0;
    if (more > 0) entries.push(Object.assign(document.createElement("li"), { className: "muted", textContent: `${more} more` }));
    this.key.replaceChildren(...entries);
  }

  // The sentences about a part, as the page has them.
  describe(part) {
    const { graph, texts } = this;
    if (part.isBox) {
      const layers = part.isPile ? [`${part.names.length} with the same operations`] : [];
      return [part.title.replace("  ", ", "), ...layers, ...texts[graph.boxes[part.box]].split("\n")];
    }
    const { slot } = part;
    const lines = [`${graph.names[slot]} = ${texts[graph.labels[slot]]}`, texts[graph.values[slot]]];
    if (texts[graph.modules[slot]]) lines.push(`in ${texts[graph.modules[slot]]}`);
    for (const [name, way] of Object.entries(graph.ways)) {
      if (way.of[slot] >= 0 && name !== "dtype") lines.push(`${name}: ${texts[way.key[way.of[slot]][1]]}`);
    }
    return lines.filter(Boolean);
  }

  aboutPart(part) {
    const lines = part ? this.describe(part) : ["A click on a module opens it and, once more, closes it; a click on an operation shows its line. Keys: ↑ ↓ move, → opens, ← closes."];
    this.about.replaceChildren(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
    if (!part || part.isBox || !this.view || this.graph.lines[part.slot] < 0) return;
    const link = Object.assign(document.createElement("a"), { href: "#view", textContent: "its line, source and kernel" });
    link.addEventListener("click", () => this.view.goTo({ number: this.graph.text, line: this.graph.lines[part.slot] }));
    this.about.append(link);
  }

  focus(item) {
    if (!item) return;
    for (const other of this.items) other.setAttribute("tabindex", other === item ? "0" : "-1");
    this.aboutPart(item.drawnPart);
    this.mark(item);
  }

  point(item) { if (item) this.mark(item); }

  // Highlights the edges of a part.
  mark(item) {
    for (const edge of this.canvas.querySelectorAll(".edge.used")) edge.classList.remove("used");
    const around = item.drawnPart.around;
    if (!around || !item.parentNode) return;
    const number = around.parts.indexOf(item.drawnPart) + 1;
    for (const edge of item.parentNode.children) {
      if (edge.ends && edge.ends.includes(number)) edge.classList.add("used");
    }
  }

  click(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    if (event.target.step) { this.step(item.drawnPart, event.target.step); return; }
    item.focus({ preventScroll: true });
    if (item.drawnPart.isBox) this.toggle(item.drawnPart);
    else this.choose(item.drawnPart);
  }

  choose(part) {
    const line = this.graph.lines[part.slot];
    if (this.view && line >= 0) this.view.goTo({ number: this.graph.text, line });
    else this.markSelected(part);
  }

  toggle(part) {
    if (part.isOpen) this.open.delete(part.key); else this.open.add(part.key);
    this.draw();
  }

  step(part, step) {
    const count = part.names.length;
    this.layer.set(part.key, (part.shown + step + count) % count);
    this.draw();
  }

  key_(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
    const part = item.drawnPart;
    const at = this.items.indexOf(item);
    const ordered = this.items;
    let next = null;
    if (event.key === "ArrowDown") next = ordered[at + 1];
    else if (event.key === "ArrowUp") next = ordered[at - 1];
    else if (event.key === "Home") next = ordered[0];
    else if (event.key === "End") next = ordered[ordered.length - 1];
    else if (event.key === "ArrowRight" && part.isBox && !part.isOpen) this.toggle(part);
    else if (event.key === "ArrowLeft" && part.isOpen) this.toggle(part);
    else if (event.key === "ArrowLeft") next = item.parentNode.closest("[role=treeitem]");
    else if (event.key === "[" || event.key === "]") {
      let pile = part;
      while (pile && !pile.isPile) pile = pile.around;
      if (pile) this.step(pile, event.key === "[" ? -1 : 1);
    } else if (event.key === "Enter" || event.key === " ") { if (part.isBox) this.toggle(part); else this.choose(part); }
    else return;
    event.preventDefault();
    if (next) next.focus();
  }

  zoom(factor) { this.scale = Math.min(3, Math.max(0.2, this.scale * factor)); this.draw(); }

  openAll() {
    const waiting = [this.rootPart()];
    while (waiting.length && this.open.size < MOST_OPENED) {
      const part = waiting.shift();
      if (!part.isBox) continue;
      this.open.add(part.key);
      waiting.push(...part.parts);
    }
    this.draw();
  }

  foldAll() { this.open = new Set([""]); this.draw(); }

  // The way to an operation: the boxes around it, and which of several layers.
  reveal(slot) {
    let part = this.rootPart();
    let isDrawn = true;
    while (part.isBox) {
      const layer = part.isPile ? Math.floor((slot - part.slot) / part.inside.operations) : 0;
      if (!this.open.has(part.key) || part.shown !== layer) isDrawn = false;
      this.open.add(part.key);
      if (part.isPile) this.layer.set(part.key, layer);
      part.made = null;
      part = part.parts.find((inner) => inner.slot <= slot && slot < inner.slot + inner.operations);
    }
    if (!isDrawn) this.draw();
    const item = this.items.find((each) => !each.drawnPart.isBox && each.drawnPart.slot === slot);
    if (!item) return;
    this.focusWithoutLeaving(item);
    item.scrollIntoView({ block: "nearest", inline: "center" });
  }

  markSelected(part) {
    for (const item of this.items) item.classList.toggle("selected", item.drawnPart === part);
  }

  focusWithoutLeaving(item) {
    this.markSelected(item.drawnPart);
    this.aboutPart(item.drawnPart);
    this.mark(item);
  }

  find(words, step) {
    const wanted = words.trim().toLowerCase();
    if (!wanted) { this.found.textContent = ""; this.matches = null; return; }
    if (!this.matches || this.wanted !== wanted) {
      const { graph, texts } = this;
      this.wanted = wanted;
      this.smallTexts = this.smallTexts || texts.map((text) => text.toLowerCase());
      graph.smallNames = graph.smallNames || graph.names.map((name) => name.toLowerCase());
      const hits = this.smallTexts.map((text) => text.includes(wanted));
      this.matches = [];
      for (let slot = 0; slot < graph.names.length; slot += 1) {
        const isHit = hits[graph.labels[slot]] || hits[graph.values[slot]] || hits[graph.modules[slot]] || graph.smallNames[slot].includes(wanted);
        if (isHit) this.matches.push(slot);
      }
      this.at = 0;
    } else {
      this.at = (this.at + step + this.matches.length) % Math.max(1, this.matches.length);
    }
    if (!this.matches.length) { this.found.textContent = "not found"; return; }
    this.found.textContent = `${this.at + 1} of ${this.matches.length}`;
    this.reveal(this.matches[this.at]);
  }

  // Highlights what is linked to the selected line: an operation, or the closed box around it.
  follow() {
    if (!this.view || !this.items) return;
    const place = this.view.selected;
    const lines = new Set();
    if (place) {
      if (place.number === this.graph.text) lines.add(place.line);
      for (const [from, to] of this.view.links(place)[this.graph.text] || []) {
        for (let line = from; line <= to; line += 1) lines.add(line);
      }
    }
    if (!this.slotOfLine) this.slotOfLine = new Map(this.graph.lines.map((line, slot) => [line, slot]));
    const slots = [...lines].map((line) => this.slotOfLine.get(line)).filter((slot) => slot !== undefined);
    for (const item of this.items) {
      const part = item.drawnPart;
      const isLinked = !part.isOpen && slots.some((slot) => part.slot <= slot && slot < part.slot + part.operations);
      item.classList.toggle("linked", isLinked);
      item.classList.toggle("selected", isLinked && !part.isBox && Boolean(place) && place.number === this.graph.text && this.graph.lines[part.slot] === place.line);
    }
  }
}
