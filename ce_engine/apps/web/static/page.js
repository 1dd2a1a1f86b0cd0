// What every page does: keys.  j/k or arrows walk rows with [data-row], Enter opens, / goes to the search, the arrow down from it to the rows.

const rows = () => [...document.querySelectorAll("[data-row]")];

function walk(step) {
  const all = rows();
  if (!all.length) return false;
  const here = all.indexOf(document.activeElement?.closest("[data-row]"));
  const next = here < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step));
  const target = all[next].matches("a, button, [tabindex]") ? all[next] : all[next].querySelector("a, button");
  target?.focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    if (event.key === "ArrowDown" && event.target.type === "search" && walk(1)) event.preventDefault();
    return;
  }
  const steps = { j: 1, k: -1 };
  if (event.key in steps && walk(steps[event.key])) event.preventDefault();
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) { search.focus(); event.preventDefault(); }
  }
});

// htmx may have moved on since the page was made: a switch comes back to where the reader is now.
document.addEventListener("submit", (event) => {
  const back = event.target.elements?.back;
  if (back) back.value = location.pathname + location.search;
}, true);

// A text that goes on below what is seen of it says so.
const goesOn = (text) => text.classList.toggle("goes-on", text.scrollHeight - text.clientHeight - text.scrollTop > 4);
const mark = () => document.querySelectorAll(".clip").forEach(goesOn);
for (const moment of ["load", "resize"]) addEventListener(moment, mark);
for (const moment of ["htmx:load", "toggle"]) document.addEventListener(moment, mark, true);
document.addEventListener("scroll", (event) => { if (event.target.matches?.(".clip")) goesOn(event.target); }, true);
