// Puts each turn that comes at the top of the table, or in the place of what was known of it. What comes is HTML that
// the server has escaped. The page keeps so many rows, and the stream ends with it.

const place = document.getElementById("turns");
const body = place.querySelector("tbody");
const pulse = document.getElementById("pulse");
const hold = document.getElementById("hold");
const held = [];
let holding = false;

function rowOf(html) {
  const template = document.createElement("template");
  template.innerHTML = `<table><tbody>${html}</tbody></table>`;
  return template.content.querySelector("tr");
}

function show(html) {
  const row = rowOf(html);
  const known = [...body.children].find((each) => each.dataset.key === row.dataset.key);
  const focused = known?.contains(document.activeElement) ? [...known.querySelectorAll("a")].indexOf(document.activeElement) : -1;
  if (known) known.replaceWith(row);
  else {
    row.classList.add("arrived");
    body.prepend(row);
  }
  if (focused >= 0) row.querySelectorAll("a")[focused]?.focus();
  while (body.children.length > Number(place.dataset.rows)) body.lastElementChild.remove();
  place.hidden = false;
  document.getElementById("none").hidden = true;
}

function say(word, kind) {
  const text = pulse.dataset[word];
  if (pulse.textContent !== text) pulse.textContent = text;
  pulse.className = `chip ${kind}`;
}

const query = new URLSearchParams({ since: place.dataset.since, after: place.dataset.after });
const source = new EventSource(`/live/turns?${query}`);
source.addEventListener("open", () => say(holding ? "held" : "on", holding ? "warn" : "good"));
source.addEventListener("error", () => say("off", "warn"));
source.addEventListener("turn", (event) => {
  if (!holding) show(event.data);
  else {
    held.push(event.data);
    if (held.length > Number(place.dataset.rows)) held.shift();
  }
});
window.addEventListener("pagehide", () => source.close());

hold.addEventListener("click", () => {
  holding = !holding;
  hold.setAttribute("aria-pressed", String(holding));
  hold.textContent = holding ? hold.dataset.go : hold.dataset.hold;
  say(holding ? "held" : "on", holding ? "warn" : "good");
  if (!holding) held.splice(0).forEach(show);
});
