// The keys of the page, which are those of the app where they do the same, and its search.

const VIEWS = {
  1: "findings", 2: "view", 3: "stages", 4: "breaks", 5: "guards",
  6: "kernels", 7: "memory", 8: "console", 9: "flame", 0: "modules",
};
const MOST_FOUND = 60;

class Keys {
  constructor(view) {
    this.view = view;
    this.help = document.getElementById("help");
    document.getElementById("show-help").addEventListener("click", () => this.help.showModal());
    document.getElementById("close-help").addEventListener("click", () => this.help.close());
    document.addEventListener("keydown", (event) => this.press(event));
    const list = this.help.querySelector("tbody");
    for (const [key, id] of Object.entries(VIEWS)) {
      const section = document.getElementById(id);
      if (section) this.addKey(list, key, section.querySelector("h2").textContent);
    }
  }

  addKey(list, key, text) {
    const row = list.insertRow();
    row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: key }));
    row.insertCell().textContent = text;
  }

  press(event) {
    const isTyping = event.target.closest("input, select, textarea");
    if (event.ctrlKey || event.altKey || event.metaKey || this.help.open || (isTyping && event.key !== "Escape")) return;
    const { key } = event;
    if (key === "?") this.help.showModal();
    else if (key === "/") document.getElementById("search").focus();
    else if (key === "g") document.querySelector("#drawing [role=treeitem][tabindex='0']")?.focus();
    else if (key === "s") document.getElementById("save").click();
    else if (key === "t") document.getElementById("theme").click();
    else if (key === "b" && this.view) this.view.toggleSecond();
    else if (VIEWS[key] && document.getElementById(VIEWS[key])) showSection(VIEWS[key]);
    else return;
    event.preventDefault();
  }
}

function showSection(id) {
  const section = document.getElementById(id);
  const folded = section.querySelector(":scope > details:not(.quiet):not(.finding)");
  if (folded) folded.open = true;
  section.scrollIntoView();
  const focused = section.querySelector(".lines, a, summary, select");
  if (focused) focused.focus({ preventScroll: true });
}

// Search in all that the page has: findings, rows of tables, and the lines of all texts.
class Search {
  constructor(view) {
    this.view = view;
    this.input = document.getElementById("search");
    this.results = document.getElementById("results");
    this.input.addEventListener("focus", () => this.prepare());
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.results.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("click", (event) => { if (!event.target.closest(".search")) this.close(); });
  }

  // The texts are unpacked before the first letter is typed.
  prepare() {
    if (!this.prepared) this.prepared = this.read();
    return this.prepared;
  }

  async read() {
    const plain = document.createElement("textarea");
    this.lines = [];
    if (!this.view) return;
    for (const [number, text] of this.view.data.texts.entries()) {
      await this.view.load(number);
      // Of the markup only the ends of elements and the entities of html.escape are there.
      plain.innerHTML = text.lines.map((line) => line.replace(/<[^>]*>/g, "")).join("\n");
      this.lines.push(plain.value.split("\n"));
      text.lowered = plain.value.toLowerCase();
    }
  }

  async find() {
    const wanted = this.input.value.trim().toLowerCase();
    await this.prepare();
    if (wanted !== this.input.value.trim().toLowerCase()) return;
    const found = wanted ? [...this.rows(wanted), ...this.places(wanted)] : [];
    const shown = found.slice(0, MOST_FOUND);
    this.results.replaceChildren(...shown.map((each) => this.entry(each)));
    if (wanted && !found.length) this.results.append(Object.assign(document.createElement("p"), { className: "muted", textContent: "Not found." }));
    if (found.length > shown.length) this.results.append(Object.assign(document.createElement("p"), { className: "muted", textContent: "More was found: type more of it." }));
    this.results.hidden = !wanted;
  }

  rows(wanted) {
    if (!this.searched) {
      this.searched = [...document.querySelectorAll(".finding > summary, section tbody tr")].map((element) => ({ element, text: element.textContent.toLowerCase() }));
    }
    const found = [];
    for (const { element, text } of this.searched) {
      if (found.length > MOST_FOUND / 2) break;
      if (text.includes(wanted)) found.push({ element });
    }
    return found;
  }

  places(wanted) {
    const found = [];
    for (const [number, text] of this.view ? this.view.data.texts.entries() : []) {
      let at = text.lowered.indexOf(wanted);
      let line = 0;
      let counted = 0;
      while (at >= 0 && found.length <= MOST_FOUND) {
        for (let next = text.lowered.indexOf("\n", counted); next >= 0 && next < at; next = text.lowered.indexOf("\n", counted)) { line += 1; counted = next + 1; }
        found.push({ number, line });
        const end = text.lowered.indexOf("\n", at);
        at = end < 0 ? -1 : text.lowered.indexOf(wanted, end);
      }
      if (found.length > MOST_FOUND) break;
    }
    return found;
  }

  entry(place) {
    const button = document.createElement("button");
    button.type = "button";
    const where = document.createElement("span");
    where.className = "muted";
    if (place.element) {
      where.textContent = place.element.closest("section").querySelector("h2").textContent;
      const cells = [...(place.element.cells || [])].map((cell) => cell.textContent.replace(/more\s*$/, "").trim());
      button.append(where, ` ${shortened((cells.join(" ") || place.element.textContent).replace(/\s+/g, " ").trim(), 120)}`);
    } else {
      where.textContent = `${this.view.data.texts[place.number].title}:${place.line + 1}`;
      button.append(where, ` ${shortened(this.lines[place.number][place.line].trim(), 100)}`);
    }
    button.addEventListener("click", () => { this.close(); this.show(place); });
    return button;
  }

  show(place) {
    if (!place.element) {
      document.getElementById("view").scrollIntoView();
      this.view.goTo(place);
      return;
    }
    const rest = place.element.closest("tbody.rest");
    if (rest) showRest(rest);
    for (let around = place.element.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    place.element.scrollIntoView({ block: "center" });
    place.element.classList.add("found-row");
    setTimeout(() => place.element.classList.remove("found-row"), 4000);
  }

  key(event) {
    const entries = [this.input, ...this.results.querySelectorAll("button")];
    const at = entries.indexOf(document.activeElement);
    if (event.key === "Escape") { this.close(); this.input.blur(); }
    else if (event.key === "ArrowDown") entries[Math.min(entries.length - 1, at + 1)].focus();
    else if (event.key === "ArrowUp") entries[Math.max(0, at - 1)].focus();
    else if (event.key === "Enter" && at === 0 && entries.length > 1) entries[1].click();
    else return;
    event.preventDefault();
  }

  close() { this.results.hidden = true; }
}
