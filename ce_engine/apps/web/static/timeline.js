// The timeline of a session: point at a turn, click or press Enter to open it, zoom. The picture is the server's; a turn is one unit wide.

const place = document.querySelector(".timeline");
const svg = place?.querySelector(".plot svg");
const told = document.getElementById("timeline-told");

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

// The word that is looked for goes along to a turn.
function sought() {
  return document.getElementById("find")?.value.trim() ?? "";
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="/turn?"]');
  if (!link) return;
  const url = new URL(link.href), find = sought();
  if (find) url.searchParams.set("find", find);
  else url.searchParams.delete("find");
  link.href = url.pathname + url.search + url.hash;
}, true);

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".go-to")) return;
  const field = form.elements.find ?? form.appendChild(Object.assign(document.createElement("input"), { type: "hidden", name: "find" }));
  field.value = sought();
  field.disabled = !field.value;
}, true);

if (svg) start(read("timeline-data"), read("timeline-words"));

function start(data, words) {
  const count = data.turns.length;
  const high = svg.viewBox.baseVal.height;
  const here = svg.querySelector(".here");
  const gaps = svg.querySelector(".gaps");
  const axis = [...place.querySelectorAll(".axis span")];
  const moved = new Set(data.moved);
  const number = new Intl.NumberFormat(document.documentElement.lang);
  let begin = 0, width = count, at = -1;

  function address(turn) {
    const query = new URLSearchParams({ id: data.id });
    if (data.user) query.set("user", data.user);
    query.set("turn", turn);
    if (sought()) query.set("find", sought());
    return `/turn?${query}`;
  }

  function look(from, turns) {
    width = Math.max(Math.min(turns, count), Math.min(count, 5));
    begin = Math.max(0, Math.min(Math.round(from), count - width));
    svg.setAttribute("viewBox", `${begin} 0 ${width} ${high}`);
    gaps?.setAttribute("visibility", width > 300 ? "hidden" : "visible");
    axis.forEach((span, n) => {
      const turn = begin + Math.min(width - 1, Math.round(((width - 1) * n) / (axis.length - 1)));
      span.textContent = n && width < axis.length && data.turns[turn] === Number(axis[n - 1].textContent) ? "" : data.turns[turn];
    });
  }

  function show(turn) {
    at = Math.max(0, Math.min(count - 1, turn));
    here.setAttribute("x", at);
    svg.classList.add("pointed");
    if (at < begin || at >= begin + width) look(at - width / 2, width);
    const layers = Object.entries(data.layers).filter(([, all]) => all[at]).map(([name, all]) => `${words.layers[name]} ${number.format(all[at])}`);
    const budget = data.budget[at] ? ` ${told.dataset.of} ${number.format(data.budget[at])}` : "";
    const parts = [told.dataset.turn.replace("#", data.turns[at])];
    const lane = data.lanes[data.lane[at]];
    if (lane) parts.push(lane);
    parts.push(`${number.format(data.used[at])}${budget} ${told.dataset.tokens} (${layers.join(", ")})`);
    if (data.prefix[at]) parts.push(`${told.dataset.cached} ${number.format(data.prefix[at])}`);
    if (data.without[at]) parts.push(`${told.dataset.without} ${number.format(data.without[at])}`);
    if (data.left_out[at]) parts.push(`${told.dataset.left} ${number.format(data.left_out[at])}/${number.format(data.given[at])}`);
    if (moved.has(at)) parts.push(told.dataset.moved);
    for (const mark of data.marks[at] || []) parts.push(words.marks[mark]);
    told.textContent = parts.join(" · ");
  }

  function pointed(event) {
    const box = svg.getBoundingClientRect();
    return Math.floor(begin + ((event.clientX - box.left) / box.width) * width);
  }

  function zoom(factor) {
    const middle = at >= begin && at < begin + width ? at : begin + width / 2;
    const turns = Math.round(width * factor);
    look(middle - turns / 2, turns);
  }

  svg.addEventListener("pointermove", (event) => show(pointed(event)));
  svg.addEventListener("click", (event) => { location.href = address(data.turns[Math.max(0, Math.min(count - 1, pointed(event)))]); });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8);
  }, { passive: false });

  const keys = {
    ArrowRight: () => show(at + 1), ArrowLeft: () => show(at < 0 ? count - 1 : at - 1),
    PageDown: () => show(at + 10), PageUp: () => show(at - 10), Home: () => show(0), End: () => show(count - 1),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(0, count),
    Enter: () => { if (at >= 0) location.href = address(data.turns[at]); },
  };
  place.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
  place.addEventListener("focus", () => { if (at < 0) show(begin + width - 1); });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    const what = { in: () => zoom(0.5), out: () => zoom(2), all: () => look(0, count) };
    button.addEventListener("click", what[button.dataset.zoom]);
  }
  look(0, count);
}
