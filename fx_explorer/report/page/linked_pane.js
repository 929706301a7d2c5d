// A pane of the linked view: the lines of one text, of which those on screen are drawn.

const LINE_PX = 18;
const AHEAD = 20; // lines that are drawn above and below those on screen

class Pane {
  constructor(element, view) {
    this.element = element;
    this.view = view;
    this.name = element.dataset.pane;
    this.isSecond = element.classList.contains("second");
    this.direction = ""; // of the graphs it shows; empty for all
    this.lines = element.querySelector(".lines");
    this.title = element.querySelector(".title");
    this.plainTitle = this.title.textContent;
    this.select = element.querySelector("select");
    this.count = element.querySelector(".count");
    this.letGo = element.querySelector(".let-go");
    this.sheet = document.createElement("div");
    this.sheet.className = "sheet";
    this.lines.append(this.sheet);
    this.number = -1;
    this.offer();
    this.select.addEventListener("change", () => {
      this.show(Number(this.select.value));
      view.follow(this);
    });
    this.letGo.addEventListener("click", () => view.letGo());
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

  accepts(text) { return text.pane === this.name && (!this.direction || text.direction === this.direction); }

  offer() {
    this.select.replaceChildren();
    for (const [number, text] of this.view.data.texts.entries()) {
      if (this.accepts(text)) this.select.add(new Option(titled(text), number));
    }
    this.select.value = String(this.number);
  }

  // Shows the graphs of one direction alone, or all again.
  keepTo(direction) {
    this.direction = direction;
    this.title.textContent = direction ? `${direction[0].toUpperCase()}${direction.slice(1)} graph` : this.plainTitle;
    for (const element of [this.select, this.lines]) element.setAttribute("aria-label", this.title.textContent);
    this.offer();
  }

  show(number) {
    if (this.number === number) return;
    this.number = number;
    this.hasMarks = Object.keys(this.text.marks).length > 0;
    this.select.value = String(number);
    this.select.title = titled(this.text);
    this.sheet.style.setProperty("--digits", String(this.text.count).length);
    this.sheet.style.height = `${this.text.count * LINE_PX}px`;
    this.lines.scrollTop = 0;
    this.draw();
  }

  showNothing(message) {
    this.number = -1;
    this.drawn = "";
    this.letGo.hidden = true;
    this.sheet.replaceChildren();
    this.sheet.style.height = "0";
    this.select.value = "";
    this.count.textContent = message;
  }

  draw() {
    if (this.number < 0 || this.view.isTurning) return;
    const { lines, count } = this.text;
    this.sheet.style.height = `${count * LINE_PX}px`;
    if (!lines) { this.view.load(this.number); return; } // drawn again when they are there
    const first = Math.max(0, Math.floor(this.lines.scrollTop / LINE_PX) - AHEAD);
    const last = Math.min(count, first + Math.ceil(this.lines.clientHeight / LINE_PX) + 2 * AHEAD);
    const linked = this.view.linkedLines(this.number);
    const marked = isWhole(this.text, linked) ? [] : linked;
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
      row.classList.toggle("linked", marked.some(([from, to]) => from <= line && line <= to));
      row.classList.toggle("selected", isSelected);
      row.setAttribute("aria-selected", String(isSelected));
      if (isSelected) this.lines.setAttribute("aria-activedescendant", row.id);
    }
    this.letGo.hidden = !selected || selected.number !== this.number;
    this.count.textContent = this.view.status(this, linked);
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
    if (!this.text) return;
    const all = this.text.count;
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

// The compiled version a text is of, as its title begins with it: [0/0].
function versionName(text) { return (text.title.match(/^\[[^\]]*\]/) || [""])[0]; }

// A kernel whose line is not known is linked by its first line, which stands for all of it.
function isWhole(text, runs) {
  return text.pane === "kernel" && runs.length === 1 && runs[0][0] === 0 && runs[0][1] === 0;
}

function lineCount(runs) { return runs.reduce((sum, [from, to]) => sum + to - from + 1, 0); }
