// What turns cost comes in a part of its own: those that became dearer are then marked in the table, too.

document.body.addEventListener("htmx:afterSettle", () => {
  for (const each of document.querySelectorAll("#costs [data-dearer]")) {
    const row = document.querySelector(`#turns a[data-turn="${each.dataset.dearer}"]`)?.closest("tr");
    const chip = document.querySelector("#costs summary .chip");
    if (!row || !chip || row.querySelector(".chip.dearer")) continue;
    const mark = chip.cloneNode(true);
    mark.classList.add("dearer");
    row.querySelector("td.marks").append(" ", mark);
  }
});
