// The tables: what a row says of itself is shown when it is asked for.

let details = null; // the texts, when the first has been asked for

async function toggleDetail(button) {
  const shown = button.nextElementSibling;
  if (shown) { shown.remove(); button.setAttribute("aria-expanded", "false"); return; }
  details = details || await unpackedData("details");
  const text = document.createElement("pre");
  text.textContent = details[Number(button.dataset.detail)];
  button.after(text);
  button.setAttribute("aria-expanded", "true");
}

document.querySelector("main").addEventListener("click", (event) => {
  const button = event.target.closest("button.more");
  if (button) toggleDetail(button);
});

// Most rows of a long table wait behind a button.
for (const rest of document.querySelectorAll("tbody.rest")) {
  rest.hidden = true;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "show-rest";
  button.textContent = `Show ${rest.rows.length} more rows`;
  button.addEventListener("click", () => showRest(rest));
  rest.closest(".scroll").after(button);
}

function showRest(rest) {
  rest.hidden = false;
  const button = rest.closest(".scroll").nextElementSibling;
  if (button && button.matches(".show-rest")) button.remove();
}

addEventListener("beforeprint", () => document.querySelectorAll("tbody.rest").forEach(showRest));
