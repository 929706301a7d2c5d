// The parts of a drawn graph: operations, modules, and layers with the same operations. The rows they
// stand in come with the page; here rows get pixels.

const SVG = "http://www.w3.org/2000/svg";
const LETTER_PX = 6.7; // of the drawing's font
const PART_PX = 36; // height of an operation or a closed box
const HEAD_PX = 24; // height of an open box's title
const PAD_PX = 10;
const ROW_GAP_PX = 26;
const COLUMN_GAP_PX = 14;
const PASS_PX = 10; // width of the place of an edge that passes a row
const MOST_LETTERS = 34;

const INPUTS = ["placeholder", "get_attr"]; // they have a name and no operation

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function svgElement(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A part of a drawing with its place among the operations and boxes of the graph.
class Part {
  constructor(drawing, key, part, slot, box, around) {
    this.drawing = drawing;
    this.key = key; // the same for each of several layers with one content
    this.slot = slot; // number of its first operation
    this.box = box; // its number among the boxes; -1 for an operation
    this.around = around;
    this.depth = around ? around.depth + 1 : 0;
    this.isBox = typeof part !== "string";
    if (!this.isBox) { this.name = part; this.operations = 1; return; }
    [this.names, this.type, this.content] = part;
    this.inside = drawing.data.contents[this.content];
    this.operations = this.inside.operations * this.names.length;
    this.isPile = this.names.length > 1;
    this.name = this.isPile ? `${this.names[0]} … ${this.names[this.names.length - 1]}` : this.names[0];
  }

  get isOpen() { return this.isBox && this.drawing.open.has(this.key); }

  // Which of several layers is shown.
  get shown() { return this.isPile ? Math.min(this.drawing.layer.get(this.key) || 0, this.names.length - 1) : 0; }

  get parts() {
    if (!this.made) {
      let slot = this.slot + this.shown * this.inside.operations;
      let box = this.box + 1 + (this.isPile ? 1 + this.shown * (1 + this.inside.boxes) : 0);
      this.made = this.inside.parts.map((part, at) => {
        const inner = new Part(this.drawing, `${this.key}/${at}`, part, slot, typeof part === "string" ? -1 : box, this);
        slot += inner.operations;
        if (inner.isBox) box += inner.names.length * (1 + inner.inside.boxes) + (inner.isPile ? 1 : 0);
        return inner;
      });
    }
    return this.made;
  }

  get title() {
    if (!this.isBox) return INPUTS.includes(this.name) ? this.drawing.graph.names[this.slot] : this.name;
    const name = this.name || "neighbours";
    const count = this.isPile ? ` ×${this.names.length}` : "";
    return this.type ? `${name}${count}  ${this.type}` : `${name}${count}`;
  }

  get subtitle() {
    const { graph, texts } = this.drawing;
    return this.isBox ? texts[graph.boxes[this.box]].split("\n")[0] : texts[graph.values[this.slot]];
  }

  // Gives the part a size, and places to all that is in it.
  measure() {
    if (!this.isOpen) {
      const letters = Math.max(shortened(this.title, MOST_LETTERS).length, shortened(this.subtitle, MOST_LETTERS).length);
      this.width = letters * LETTER_PX + 2 * PAD_PX;
      this.height = PART_PX;
      return;
    }
    const { parts } = this;
    for (const part of parts) part.measure();
    const widthOf = (item) => (item < 0 ? PASS_PX : item === 0 || item > parts.length ? PASS_PX : parts[item - 1].width);
    const heightOf = (item) => (item > 0 && item <= parts.length ? parts[item - 1].height : 0);
    const widths = this.inside.rows.map((row) => row.reduce((sum, item) => sum + widthOf(item) + COLUMN_GAP_PX, -COLUMN_GAP_PX));
    const title = shortened(this.title, 2 * MOST_LETTERS).length * LETTER_PX + (this.isPile ? 120 : 40);
    this.width = Math.max(title, ...widths) + 2 * PAD_PX;
    this.passes = new Map(); // edge → its places in rows
    this.ports = [];
    let top = HEAD_PX + PAD_PX;
    this.inside.rows.forEach((row, number) => {
      const height = Math.max(0, ...row.map(heightOf));
      let left = (this.width - widths[number]) / 2;
      for (const item of row) {
        const width = widthOf(item);
        if (item < 0) {
          const place = { x: left + width / 2, top, bottom: top + height };
          this.passes.set(-1 - item, [...(this.passes.get(-1 - item) || []), place]);
        } else if (item === 0 || item > parts.length) {
          this.ports[item ? 1 : 0] = { x: left + width / 2, y: top + height / 2 };
        } else {
          parts[item - 1].x = left;
          parts[item - 1].y = top + (height - parts[item - 1].height) / 2;
        }
        left += width + COLUMN_GAP_PX;
      }
      top += height + ROW_GAP_PX;
    });
    this.height = top - ROW_GAP_PX + PAD_PX;
  }

  draw(into) {
    const { drawing } = this;
    const group = svgElement("g", {
      class: this.isBox ? (this.isOpen ? "box open" : "box") : "operation",
      transform: `translate(${this.x.toFixed(1)} ${this.y.toFixed(1)})`,
      role: "treeitem", tabindex: "-1", "aria-level": String(Math.max(1, this.depth)),
      "aria-label": drawing.describe(this).join(", "),
    });
    if (this.isBox) group.setAttribute("aria-expanded", String(this.isOpen));
    if (this.isPile && !this.isOpen) {
      for (const shift of [6, 3]) group.append(svgElement("rect", { class: "sheet", x: shift, y: shift, width: this.width, height: this.height, rx: 4 }));
    }
    group.append(svgElement("rect", { class: "frame", width: this.width.toFixed(1), height: this.height.toFixed(1), rx: this.isBox ? 5 : 3 }));
    if (this.isOpen) {
      group.append(svgElement("text", { x: PAD_PX, y: 17, class: "name" }, `▾ ${shortened(this.title, 2 * MOST_LETTERS)}`));
      if (this.isPile) this.drawSteps(group);
      for (const [number, edge] of this.inside.edges.entries()) this.drawEdge(group, number, edge);
      for (const part of this.inReadingOrder) part.draw(group);
      for (const port of this.ports) if (port) group.append(svgElement("circle", { class: "port", cx: port.x, cy: port.y, r: 3 }));
    } else {
      group.append(svgElement("text", { x: PAD_PX, y: 15, class: "name" }, shortened(this.title, MOST_LETTERS)));
      group.append(svgElement("text", { x: PAD_PX, y: 29, class: "value" }, shortened(this.subtitle, MOST_LETTERS)));
      if (this.isBox) this.drawShares(group);
      else this.colour(group);
    }
    group.drawnPart = this;
    into.append(group);
    drawing.drawn.push(group);
  }

  get inReadingOrder() {
    const items = this.inside.rows.flat();
    return items.filter((item) => item > 0 && item <= this.parts.length).map((item) => this.parts[item - 1]);
  }

  // Buttons that step through layers with one content.
  drawSteps(group) {
    const text = `${this.names[this.shown]} (${this.shown + 1} of ${this.names.length})`;
    for (const [step, sign, x] of [[-1, "◂", this.width - 118], [1, "▸", this.width - 22]]) {
      const button = svgElement("text", { class: "step", x, y: 17, role: "button", "aria-label": step < 0 ? "the layer before" : "the next layer" }, sign);
      button.step = step;
      group.append(button);
    }
    group.append(svgElement("text", { class: "value", x: this.width - 100, y: 17 }, shortened(text, 12)));
  }

  // The colour of an operation, on which letters are dark in any theme.
  colour(group) {
    const style = this.drawing.styleOf(this.slot);
    for (const element of group.children) {
      if (element.matches(".frame")) element.setAttribute("class", style ? `frame ${style}` : "frame");
      else element.classList.toggle("inked", Boolean(style));
    }
  }

  // The colours in a closed box, as long as each has operations there.
  drawShares(group) {
    for (const share of [...group.children]) if (share.matches(".share")) share.remove();
    const way = this.drawing.way;
    if (!way) return;
    const counts = new Map();
    for (let slot = this.slot; slot < this.slot + this.operations; slot += 1) {
      const style = this.drawing.styleOf(slot);
      if (style) counts.set(style, (counts.get(style) || 0) + 1);
    }
    let left = 4;
    for (const [style, count] of [...counts].sort()) {
      const width = ((this.width - 8) * count) / this.operations;
      group.append(svgElement("rect", { class: `share ${style}`, x: left.toFixed(1), y: this.height - 5, width: width.toFixed(1), height: 4 }));
      left += width;
    }
  }

  end(item, isProducer) {
    if (item === 0) return this.ports[0];
    if (item > this.parts.length) return this.ports[1];
    const part = this.parts[item - 1];
    return { x: part.x + part.width / 2, y: isProducer ? part.y + part.height : part.y };
  }

  drawEdge(group, number, [producer, consumer]) {
    const from = this.end(producer, true);
    const to = this.end(consumer, false);
    if (!from || !to) return;
    const places = this.passes.get(number) || [];
    const kind = to.y < from.y ? "edge back" : places.length || to.y - from.y < 3 * ROW_GAP_PX ? "edge" : "edge long";
    let path = `M${from.x.toFixed(1)} ${from.y.toFixed(1)}`;
    let at = from;
    const curveTo = (x, y) => {
      const middle = (at.y + y) / 2;
      path += ` C${at.x.toFixed(1)} ${middle.toFixed(1)} ${x.toFixed(1)} ${middle.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)}`;
      at = { x, y };
    };
    for (const place of places) {
      curveTo(place.x, place.top);
      path += ` V${place.bottom.toFixed(1)}`;
      at = { x: place.x, y: place.bottom };
    }
    curveTo(to.x, to.y - 2);
    const edge = svgElement("path", { class: kind, d: path, "marker-end": "url(#arrow)" });
    edge.ends = [producer, consumer];
    group.append(edge);
  }
}
